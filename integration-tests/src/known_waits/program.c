/* A program that knows how long each of its threads waits, and in which function.

   usage: known_waits pipe SECONDS MILLISECONDS     two processes and a pipe in each direction
          known_waits mixed SECONDS MILLISECONDS    a thread that sleeps, waits for a lock, and reads
          known_waits crowd SECONDS MILLISECONDS    64 threads, each of which waits a little longer

   Prints a line for each thread and function: process, thread, function, milliseconds. The function
   `life` is the whole thread. With `crowd`, prints how often all threads waited. With -DRECORDS, each
   process records itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef RECORDS
#include "profiler.h"
#else
static int mpprof_join(void) { return 0; }
static int mpprof_after_fork(void) { return 0; }
#endif

enum { READ, SLEEP, LOCK, COMPUTE, FUNCTIONS };
static const char *const NAMES[] = {"in_read", "in_sleep", "in_lock", "computing"};

typedef struct {
    uint64_t spent[FUNCTIONS], began;
} account;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void begin(account *own) {
    memset(own, 0, sizeof *own);
    own->began = now(CLOCK_MONOTONIC);
}

static void print(const account *own) {
    int pid = getpid(), tid = (int)syscall(SYS_gettid);
    uint64_t life = now(CLOCK_MONOTONIC) - own->began;
    flockfile(stdout);
    for (int i = 0; i < FUNCTIONS; i++)
        printf("%d %d %s %.3f\n", pid, tid, NAMES[i], own->spent[i] / 1e6);
    printf("%d %d life %.3f\n", pid, tid, life / 1e6);
    fflush(stdout);
    funlockfile(stdout);
}

/* Whether there was a byte. */
__attribute__((noinline)) static int in_read(account *own, int from) {
    uint64_t start = now(CLOCK_MONOTONIC);
    char byte;
    ssize_t got = read(from, &byte, 1);
    own->spent[READ] += now(CLOCK_MONOTONIC) - start;
    return got == 1;
}

__attribute__((noinline)) static void in_sleep(account *own, uint64_t ns) {
    uint64_t start = now(CLOCK_MONOTONIC);
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, 0);
    own->spent[SLEEP] += now(CLOCK_MONOTONIC) - start;
}

__attribute__((noinline)) static void in_lock(account *own, pthread_mutex_t *lock) {
    uint64_t start = now(CLOCK_MONOTONIC);
    pthread_mutex_lock(lock);
    own->spent[LOCK] += now(CLOCK_MONOTONIC) - start;
}

__attribute__((noinline)) static void computing(account *own, uint64_t ns) {
    uint64_t start = now(CLOCK_MONOTONIC), end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end) continue;
    own->spent[COMPUTE] += now(CLOCK_MONOTONIC) - start;
}

static void send_byte(int to) {
    if (write(to, "", 1) != 1) exit(3);
}

/* The other process answers each byte after a pause. */
static void answer(int from, int to, uint64_t pause) {
    account own;
    begin(&own);
    while (in_read(&own, from)) {
        in_sleep(&own, pause);
        send_byte(to);
    }
    print(&own);
}

static void by_pipe(uint64_t deadline, uint64_t pause) {
    int there[2], back[2];
    if (pipe(there) || pipe(back)) exit(3);
    account own;
    begin(&own);
    if (fork() == 0) {
        mpprof_after_fork();
        close(there[1]);
        close(back[0]);
        answer(there[0], back[1], pause);
        exit(0);
    }
    close(there[0]);
    close(back[1]);
    while (now(CLOCK_MONOTONIC) < deadline) {
        send_byte(there[1]);
        if (!in_read(&own, back[0])) exit(3);
        in_sleep(&own, pause * 7 / 3);
        computing(&own, pause / 6);
    }
    print(&own);
    close(there[1]);
    wait(0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pair[2];
static volatile int ends;
static uint64_t pause_ns;

/* Holds the lock two thirds of the time. Writes a byte when it has got the lock. */
static void *holds(void *unused) {
    account own;
    begin(&own);
    while (!ends) {
        in_lock(&own, &lock);
        send_byte(pair[1]);
        in_sleep(&own, pause_ns * 2);
        pthread_mutex_unlock(&lock);
        in_sleep(&own, pause_ns);
    }
    send_byte(pair[1]);
    print(&own);
    return unused;
}

static void mixed(uint64_t deadline) {
    pthread_t other;
    if (pipe(pair)) exit(3);
    account own;
    begin(&own);
    pthread_create(&other, 0, holds, 0);
    while (now(CLOCK_MONOTONIC) < deadline) {
        if (!in_read(&own, pair[0])) exit(3);
        in_sleep(&own, pause_ns / 2);
        in_lock(&own, &lock);
        pthread_mutex_unlock(&lock);
        computing(&own, pause_ns / 10);
    }
    ends = 1;
    print(&own);
    pthread_join(other, 0);
}

static uint64_t deadline;

static void *waits(void *number) {
    account own;
    begin(&own);
    uint64_t rounds = 0;
    for (; now(CLOCK_MONOTONIC) < deadline; rounds++) in_sleep(&own, pause_ns + (uintptr_t)number * pause_ns / 64);
    return (void *)rounds;
}

static void crowd(void) {
    pthread_t threads[64];
    uint64_t all = 0;
    for (uintptr_t i = 0; i < 64; i++) pthread_create(&threads[i], 0, waits, (void *)i);
    for (int i = 0; i < 64; i++) {
        void *rounds;
        pthread_join(threads[i], &rounds);
        all += (uint64_t)rounds;
    }
    printf("%llu\n", (unsigned long long)all);
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    mpprof_join();
    deadline = now(CLOCK_MONOTONIC) + (uint64_t)(atof(arguments[2]) * 1e9);
    pause_ns = (uint64_t)(atof(arguments[3]) * 1e6);
    if (!strcmp(arguments[1], "pipe")) by_pipe(deadline, pause_ns);
    else if (!strcmp(arguments[1], "mixed")) mixed(deadline);
    else if (!strcmp(arguments[1], "crowd")) crowd();
    else return 2;
    return 0;
}
