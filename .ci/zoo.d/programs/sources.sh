#!/bin/sh
# Writes a C program of FILES files with FUNCTIONS functions each: `sources.sh FILES FUNCTIONS`.
set -eu
files=$1 functions=$2
awk -v files="$files" -v functions="$functions" 'BEGIN {
    for (i = 1; i <= files; i++) {
        name = "part" i ".c"
        print "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>" > name
        for (j = 1; j <= functions; j++)
            printf "long part%d_%d(long n, const char *s) {\n    long sum = n + (long)strlen(s), table[16];\n    for (int i = 0; i < 16; i++) table[i] = sum * i ^ %d;\n    for (long i = 0; i < n; i++) { sum += table[i & 15] / (i + 1); if (sum & 64) sum ^= i * %d; }\n    return sum;\n}\n", i, j, j, i > name
        close(name)
    }
    print "#include <stdio.h>" > "main.c"
    for (i = 1; i <= files; i++) printf "long part%d_1(long, const char *);\n", i > "main.c"
    print "int main(void) {\n    long sum = 0;" > "main.c"
    for (i = 1; i <= files; i++) printf "    sum += part%d_1(%d, \"text\");\n", i, i > "main.c"
    print "    printf(\"%ld\\n\", sum);\n}" > "main.c"
}'
