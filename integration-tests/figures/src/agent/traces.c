/* Prints what a process has: threads, descriptors, bytes of the heap; and the seconds of processor
   time that 30 million calls of getc take, which the C library makes faster in a process that has
   always had one thread. */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <time.h>

static int entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

int main(void) {
    struct mallinfo2 heap = mallinfo2();
    FILE *zeros = fopen("/dev/zero", "r");
    long sum = 0;
    clock_t begin;
    printf("threads %d\n", entries("/proc/self/task"));
    printf("descriptors %d\n", entries("/proc/self/fd"));
    printf("heap_bytes %zu\n", heap.uordblks);
    begin = clock();
    for (int i = 0; i < 30000000; i++) sum += getc(zeros);
    printf("getc_s %.6f\n", (double)(clock() - begin) / CLOCKS_PER_SEC);
    return sum != 0;
}
