/* A program that uses the signal of the timers itself, or fails in ways that the preloaded library
   must not change. Each mode prints what it has seen; it prints the same without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIGNAL 61

static int received, blocked_in_handler;
static void receive(int signal) {
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, 0, &now);
    blocked_in_handler = sigismember(&now, SIGUSR1);
    received += signal == SIGNAL;
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

static void hold_back(void) {
    sigset_t set = only(SIGNAL);
    sigprocmask(SIG_BLOCK, &set, 0);
}

static void send(void) { kill(getpid(), SIGNAL); }

static void handle(int flags, int handler) {
    struct sigaction action = {.sa_handler = handler ? receive : SIG_DFL, .sa_flags = flags};
    sigaction(SIGNAL, &action, 0);
}

static void waits(void) {
    hold_back();
    send();
    sigset_t set = only(SIGNAL);
    int got = 0;
    sigwait(&set, &got);
    printf("sigwait %d\n", got);
    send();
    siginfo_t info;
    printf("sigwaitinfo %d\n", sigwaitinfo(&set, &info));
    struct signalfd_siginfo read_info = {0};
    int descriptor = signalfd(-1, &set, 0);
    send();
    if (read(descriptor, &read_info, sizeof read_info) > 0) printf("signalfd %u\n", read_info.ssi_signo);
}

static void holds_back(void) {
    handle(SA_RESTART, 1);
    hold_back();
    send();
    sigset_t pending, set = only(SIGNAL);
    sigpending(&pending);
    printf("pending %d, received %d\n", sigismember(&pending, SIGNAL), received);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    printf("received %d\n", received);
}

static void sigset_holds(void) {
    sigset(SIGNAL, SIG_HOLD);
    send();
    sigset(SIGNAL, receive);
    printf("received %d\n", received);
}

/* A slow system call that the program's handler is to end. */
static void interrupts(int flags) {
    int ends[2];
    if (pipe(ends)) exit(9);
    handle(flags, 1);
    if (fork() == 0) {
        struct timespec pause = {0, 100000000};
        nanosleep(&pause, 0);
        kill(getppid(), SIGNAL);
        nanosleep(&pause, 0);
        if (write(ends[1], "x", 1) != 1) _exit(9);
        _exit(0);
    }
    char byte;
    long got = read(ends[0], &byte, 1);
    printf("read %ld %s, received %d\n", got, got < 0 ? strerror(errno) : "", received);
    wait(0);
}

static void handler_flags(void) {
    handle(SA_RESETHAND, 1);
    send();
    struct sigaction seen;
    sigaction(SIGNAL, 0, &seen);
    printf("received %d, reset %d, other signals blocked %d\n", received, seen.sa_handler == SIG_DFL, blocked_in_handler);
}

static void vfork_resets(void) {
    handle(SA_RESTART, 1);
    pid_t child = vfork();
    if (child == 0) {
        for (int signal = 1; signal <= 64; signal++) sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, 0);
        _exit(0);
    }
    waitpid(child, 0, 0);
    send();
    printf("received %d\n", received);
}

static void ignores_and_executes(char *self) {
    signal(SIGNAL, SIG_IGN);
    execl(self, self, "ignored", (char *)0);
}

static void ignored(void) {
    struct sigaction seen;
    sigaction(SIGNAL, 0, &seen);
    send();
    printf("ignored %d\n", seen.sa_handler == SIG_IGN);
}

static void bad_filters(void) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    struct sock_fprog nowhere = {10, (struct sock_filter *)16}, none = {0, 0};
    void *programs[] = {(void *)8, &nowhere, &none, 0};
    for (int i = 0; i < 4; i++) {
        int done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, programs[i], 0, 0);
        printf("filter %d: %d %s\n", i, done, strerror(errno));
    }
}

/* Uses nearly all of a small stack, and processor time. */
static volatile unsigned long sink;
static void *use_stack(void *bytes) {
    volatile char *room = __builtin_alloca((size_t)bytes);
    for (size_t i = 0; i < (size_t)bytes; i += 64) room[i] = 1;
    struct timespec used;
    do {
        for (int i = 0; i < 1000; i++) sink += i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    } while (used.tv_sec == 0 && used.tv_nsec < 100000000);
    return (void *)(long)room[0];
}

static int runs_with(size_t bytes) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, use_stack, (void *)bytes)) return 0;
    return pthread_join(thread, 0) == 0;
}

/* The C library itself needs a part of the stack: finds out what is left of it for this program. */
static void small_stack(const char *bytes) { printf("ran %d\n", runs_with(atoi(bytes))); }

static int asleep;
static void *sleep_long(void *unused) {
    __atomic_add_fetch(&asleep, 1, __ATOMIC_RELEASE);
    sleep(60);
    return unused;
}

/* How many timers the program can have beside these threads. */
static void timers(int threads) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, sleep_long, 0)) exit(9);
    }
    while (__atomic_load_n(&asleep, __ATOMIC_ACQUIRE) < threads) usleep(1000);
    int made = 0;
    for (; made < 100; made++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) break;
    }
    printf("timers %d\n", made);
    fflush(stdout);
    _exit(0);
}

static void *await_cancel(void *how) {
    sigset_t set = only(SIGUSR1), none;
    sigemptyset(&none);
    int got;
    pthread_cleanup_push((void (*)(void *))puts, how);
    for (;;) {
        if (!strcmp(how, "sigsuspend")) sigsuspend(&none);
        else if (!strcmp(how, "sigwait")) sigwait(&set, &got);
        else { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0); for (;;) sink++; }
    }
    pthread_cleanup_pop(0);
    return 0;
}

static void cancels(void) {
    char *ways[] = {"sigsuspend", "sigwait", "asynchronous"};
    for (int i = 0; i < 30; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, 0, await_cancel, ways[i % 3]);
        usleep(10000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%d\n", result == PTHREAD_CANCELED);
    }
}

static void closed_descriptors(void) {
    printf("closed\n");
    fflush(stdout);
    close(0), close(1), close(2);
    int first = open("/dev/null", O_RDWR), status = 0;
    if (fork() == 0) _exit(open("/dev/null", O_RDWR) == 1 ? 0 : 9);
    wait(&status);
    _exit(first != 0 || status != 0);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    alarm(20);
    if (!strcmp(mode, "default")) send();
    else if (!strcmp(mode, "reset")) { handle(SA_RESTART, 1); handle(0, 0); send(); }
    else if (!strcmp(mode, "waits")) waits();
    else if (!strcmp(mode, "holds-back")) holds_back();
    else if (!strcmp(mode, "sigset-holds")) sigset_holds();
    else if (!strcmp(mode, "interrupts")) interrupts(0);
    else if (!strcmp(mode, "restarts")) interrupts(SA_RESTART);
    else if (!strcmp(mode, "handler-flags")) handler_flags();
    else if (!strcmp(mode, "vfork-resets")) vfork_resets();
    else if (!strcmp(mode, "ignores")) ignores_and_executes(arguments[0]);
    else if (!strcmp(mode, "ignored")) ignored();
    else if (!strcmp(mode, "bad-filters")) bad_filters();
    else if (!strcmp(mode, "small-stack")) small_stack(arguments[2]);
    else if (!strcmp(mode, "timers")) timers(atoi(arguments[2]));
    else if (!strcmp(mode, "cancels")) cancels();
    else if (!strcmp(mode, "closed-descriptors")) closed_descriptors();
    else return 2;
    printf("end\n");
    return 0;
}
