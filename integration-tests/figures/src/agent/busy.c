/* Runs busy threads for some seconds. */
#include <pthread.h>
#include <time.h>
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
static unsigned long deep(int depth, double end) {
    volatile unsigned long sum = depth;
    if (depth) return deep(depth - 1, end) + sum;
    while (now() < end) for (int i = 0; i < 10000; i++) sum += i;
    return sum;
}
static void *run(void *unused) { deep(20, now() + 5); return unused; }
int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], 0);
    return 0;
}
