/* A program with one mode for each test of the preloaded library. It does not know the library. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MARK 0x5ca1ab1e0ddba11ull
#define SIGNAL 61
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

static uint64_t cpu_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Uses processor time of the calling thread, all of it in this function. */
__attribute__((noinline, used)) static uint64_t spin(uint64_t milliseconds) {
    uint64_t end = cpu_ns(CLOCK_THREAD_CPUTIME_ID) + milliseconds * 1000000, sum = 0;
    do
        for (int i = 0; i < 200000; i++) sum = sum * 31 + i;
    while (cpu_ns(CLOCK_THREAD_CPUTIME_ID) < end);
    return sum;
}
static volatile uint64_t sink;

static void report(void) { printf("cpu %llu\n", (unsigned long long)cpu_ns(CLOCK_PROCESS_CPUTIME_ID)); fflush(stdout); }

/* Recurses, with a mark in the outermost frame and `bytes` in each further one. */
__attribute__((noinline)) static uint64_t deep(int depth, uint64_t milliseconds) {
    volatile unsigned char room[1000];
    room[depth % 1000] = 1;
    if (depth == 0) return spin(milliseconds);
    return deep(depth - 1, milliseconds) + room[depth % 1000];
}

static void *run(void *how) {
    sink = spin(100);
    if (how) pthread_exit(0);
    return 0;
}

static void threads(void) {
    pthread_t made[3];
    for (long i = 0; i < 3; i++) pthread_create(&made[i], 0, run, i == 1 ? &made : 0);
    for (int i = 0; i < 3; i++) pthread_join(made[i], 0);
}

static void *short_run(void *unused) { (void)unused; return 0; }

/* More threads, one after the other, than timers may exist at the same time. */
static void many_threads(int count) {
    for (int i = 0; i < count; i++) {
        pthread_t made;
        if (pthread_create(&made, 0, short_run, 0)) exit(1);
        pthread_join(made, 0);
    }
}

static void forks(int changes_user) {
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            if (changes_user && (setgid(65534) || setuid(65534))) _exit(9);
            sink = spin(60);
            exit(0);
        }
    while (wait(0) > 0) continue;
}

/* Gives up the file system, as a sandbox does, before it forks. */
static void sandboxed_forks(const char *empty) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (chroot(empty) || chdir("/")) exit(9);
    forks(0);
}

static void raw_fork(void) {
    if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, 0);
        sink = spin(60);
        exit(0);
    }
    wait(0);
}

static void by_vfork(char *self) {
    pid_t child = vfork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, 0);
        execl(self, self, "busy", "60", (char *)0);
        _exit(9);
    }
    waitpid(child, 0, 0);
    sink = spin(60);
}

static int ends_at_once(void *nothing) { (void)nothing; _exit(7); }
/* The sandbox of Chromium makes such a child: it shares the memory and has no thread-locals. */
static int without_thread_locals(void) {
    static char stack[1 << 16] __attribute__((aligned(16))), locals[1 << 16] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FS | CLONE_VFORK | CLONE_SETTLS | SIGCHLD, status = 0;
    pid_t child = clone(ends_at_once, stack + sizeof stack, flags, 0, 0, locals + sizeof locals / 2, 0);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 9;
}

static int received;
static void receive(int signal, siginfo_t *info, void *context) {
    (void)context;
    received += signal == SIGNAL && info->si_code == SI_USER;
}

static void own_handler(void) {
    struct sigaction action = {.sa_sigaction = receive, .sa_flags = SA_SIGINFO}, seen;
    sigaction(SIGNAL, &action, 0);
    kill(getpid(), SIGNAL);
    sink = spin(100);
    sigaction(SIGNAL, 0, &seen);
    printf("received %d, kept %d\n", received, seen.sa_sigaction == receive);
}

static void blocked(void) {
    sigset_t all, now;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, 0);
    sigprocmask(SIG_SETMASK, 0, &now);
    sink = spin(100);
    printf("blocked %d\n", sigismember(&now, SIGNAL));
}

static void *run_blocked(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    sink = spin(100);
    return unused;
}

/* A filter that kills the process at each call but those that are named. */
static int filter(const int *allowed, int count, int how) {
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int at = 1;
    for (int i = 0; i < count; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {at, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (how == 0) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, how == 2 ? SECCOMP_FILTER_FLAG_TSYNC : 0, &program);
}

static const int USUAL[] = {SYS_write, SYS_exit_group, SYS_exit, SYS_clock_gettime, SYS_rt_sigreturn,
                            SYS_rt_sigprocmask, SYS_getpid, SYS_fstat, SYS_newfstatat, SYS_gettid};
static const int STRICT[] = {SYS_write, SYS_exit_group, SYS_getpid, SYS_fstat, SYS_newfstatat, SYS_gettid, SYS_clock_gettime};

/* Without the clock: the filter may forbid it. */
__attribute__((noinline)) static void count(void) {
    for (uint64_t i = 0; i < 400000000; i++) sink = sink * 31 + i;
}

static volatile int runs;
static void *run_for_ever(void *unused) { for (runs = 1;;) sink++; return unused; }

/* Two filters for all threads, of which the second forbids the clock. Another thread runs on. */
static int filtered_twice(void) {
    static const int FIRST[] = {SYS_write, SYS_exit_group, SYS_clock_gettime, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_getpid,
                                SYS_gettid, SYS_prctl, SYS_seccomp};
    static const int SECOND[] = {SYS_write, SYS_exit_group, SYS_rt_sigreturn};
    pthread_t other;
    pthread_create(&other, 0, run_for_ever, 0);
    while (!runs) usleep(1000);
    if (filter(FIRST, sizeof FIRST / sizeof *FIRST, 2)) return 1;
    if (filter(SECOND, sizeof SECOND / sizeof *SECOND, 2)) return 1;
    count();
    syscall(SYS_exit_group, 0);
    return 1;
}

static int filtered(const char *kind) {
    printf("filtered\n");
    fflush(stdout);
    if (!strcmp(kind, "null")) {
        int refused = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0);
        sink = spin(100);
        return refused == -1 && errno == EFAULT ? 0 : 1;
    }
    if (!strcmp(kind, "twice")) return filtered_twice();
    int how = !strcmp(kind, "syscall") ? 1 : !strcmp(kind, "tsync") ? 2 : 0;
    if (!strcmp(kind, "strict")) {
        if (filter(STRICT, sizeof STRICT / sizeof *STRICT, 0)) return 1;
    } else if (!strcmp(kind, "mode")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
        count();
        syscall(SYS_exit, 0);
    } else if (filter(USUAL, sizeof USUAL / sizeof *USUAL, how)) {
        return 1;
    }
    count();
    _exit(0);
}

/* Executes itself again and again; each program uses some processor time. */
static void execs(char *self, int left) {
    if (left == 0) return;
    sink = spin(1);
    char number[16];
    snprintf(number, sizeof number, "%d", left - 1);
    if (left % 3 == 0) execl(self, self, "execs", number, (char *)0);
    if (left % 3 == 1) execv(self, (char *[]){self, "execs", number, 0});
    syscall(SYS_execve, self, (char *[]){self, "execs", number, 0}, environ);
    exit(9);
}

static int entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void traces(void) {
    void *before = sbrk(0);
    printf("threads %d, descriptors %d, heap %d\n", entries("/proc/self/task"), entries("/proc/self/fd"),
           (int)((char *)sbrk(0) - (char *)before));
}

static void small_alternate_stack(void) {
    static char stack[2048];
    stack_t small = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&small, 0);
    sink = spin(100);
}

/* Has an alternate stack of the size that Rust gives to its threads, behind a guard page. */
static void usual_alternate_stack(void) {
    size_t bytes = getauxval(AT_MINSIGSTKSZ);
    if (bytes < 8192) bytes = 8192;
    size_t room = (bytes + 4095) & ~(size_t)4095;
    char *memory = mmap(0, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(memory, 4096, PROT_NONE);
    stack_t usual = {.ss_sp = memory + 4096, .ss_size = bytes};
    if (sigaltstack(&usual, 0)) exit(9);
    sink = spin(100);
}

/* Computes with a stack pointer that points to no memory. Signals use the alternate stack. */
static void odd_stack(void) {
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, 0);
#ifdef __x86_64__
    uint64_t left = 400000000;
    __asm__ volatile("mov %%rsp, %%r12\n mov $0x1000, %%rsp\n 1: dec %0\n jnz 1b\n mov %%r12, %%rsp"
                     : "+r"(left) : : "r12", "cc", "memory");
#endif
}

static ucontext_t before, coroutine;
static void run_coroutine(void) { sink = spin(200); }
/* Runs on a large stack of its own, far below that of the thread. */
static void other_stack(void) {
    size_t bytes = 1 << 20;
    char *stack = mmap((void *)0xc000000000, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = bytes / 2;
    coroutine.uc_link = &before;
    makecontext(&coroutine, run_coroutine, 0);
    swapcontext(&before, &coroutine);
}
int main(int count_of_arguments, char **arguments) {
    volatile uint64_t mark = MARK;
    const char *mode = count_of_arguments > 1 ? arguments[1] : "";
    int number = count_of_arguments > 2 ? atoi(arguments[2]) : 0;
    if (!strcmp(mode, "busy")) sink = spin(number);
    else if (!strcmp(mode, "deep")) sink = deep(number, 100) + mark;
    else if (!strcmp(mode, "threads")) threads();
    else if (!strcmp(mode, "many-threads")) many_threads(number);
    else if (!strcmp(mode, "forks")) forks(number);
    else if (!strcmp(mode, "raw-fork")) raw_fork();
    else if (!strcmp(mode, "sandbox")) sandboxed_forks(arguments[2]);
    else if (!strcmp(mode, "vfork")) by_vfork(arguments[0]);
    else if (!strcmp(mode, "no-thread-locals")) return without_thread_locals();
    else if (!strcmp(mode, "own-handler")) own_handler();
    else if (!strcmp(mode, "blocked")) blocked();
    else if (!strcmp(mode, "thread-blocked")) { pthread_t t; pthread_create(&t, 0, run_blocked, 0); pthread_join(t, 0); }
    else if (!strcmp(mode, "filter")) return filtered(arguments[2]);
    else if (!strcmp(mode, "execs")) execs(arguments[0], number);
    else if (!strcmp(mode, "traces")) traces();
    else if (!strcmp(mode, "odd-stack")) odd_stack();
    else if (!strcmp(mode, "usual-stack")) usual_alternate_stack();
    else if (!strcmp(mode, "other-stack")) other_stack();
    else if (!strcmp(mode, "small-stack")) small_alternate_stack();
    else return 2;
    printf("spin %p\n", (void *)spin);
    report();
    return 0;
}
