/* Runs its arguments. Prints for how many nanoseconds they ran, and the processor time in
   microseconds that the system has counted for this process and all below it. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long used_us(int who) {
    struct rusage used;
    getrusage(who, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000LL + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}

int main(int count, char **words) {
    long long start = now_ns();
    pid_t child = fork();
    if (child == 0) {
        if (count < 2 || !freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            return 1;
        execvp(words[1], words + 1);
        return 1;
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 1;
    printf("%lld %lld\n", now_ns() - start, used_us(RUSAGE_SELF) + used_us(RUSAGE_CHILDREN));
    return 0;
}
