/* A parent that computes, then asks a worker and waits for its answer, several times (the first
   argument). The worker computes for a part of the time and sleeps for another. Prints the numbers of
   the two processes, and how long each was on the way to the end, in milliseconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static void spin(double ms) { double end = now(CLOCK_THREAD_CPUTIME_ID) + ms; while (now(CLOCK_THREAD_CPUTIME_ID) < end) sink++; }
__attribute__((noinline)) static void parent_computes(void) { spin(60); sink++; }
__attribute__((noinline)) static void worker_computes(void) { spin(120); sink++; }
__attribute__((noinline)) static void worker_sleeps(void) { usleep(100000); sink++; }
__attribute__((noinline)) static void parent_collects(int fd) { char c; if (read(fd, &c, 1) < 1) abort(); sink++; }
static void work(int questions, int answers) {
    char c;
    while (read(questions, &c, 1) == 1) {
        worker_computes();
        worker_sleeps();
        if (write(answers, &c, 1) < 1) abort();
    }
    _exit(0);
}
int main(int count, char **words) {
    int question[2], answer[2];
    if (count != 2 || pipe(question) || pipe(answer)) return 2;
    pid_t worker = fork();
    if (!worker) {
        close(question[1]);
        close(answer[0]);
        work(question[0], answer[1]);
    }
    close(question[0]);
    close(answer[1]);
    double of_parent = 0, of_worker = 0;
    for (long i = atol(words[1]); i > 0; i--) {
        double begin = now(CLOCK_MONOTONIC);
        parent_computes();
        double asked = now(CLOCK_MONOTONIC);
        if (write(question[1], "x", 1) < 1) return 3;
        parent_collects(answer[0]);
        double answered = now(CLOCK_MONOTONIC);
        of_parent += asked - begin;
        of_worker += answered - asked;
    }
    close(question[1]);
    waitpid(worker, 0, 0);
    printf("%d %f\n%d %f\n", getpid(), of_parent, worker, of_worker);
    return 0;
}
