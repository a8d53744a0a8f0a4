/* Waits in one function for each kind of wait. Prints the function and the number of the process or
   thread that ends the wait, one line each. The first argument is the length of a wait, in
   milliseconds; the second is the number of waits of each kind. With -DRECORDS, the process records
   itself. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef RECORDS
#include "profiler.h"
#else
static int mpprof_join(void) { return 0; }
#endif
static volatile int sink;
static void need(int failed) { if (failed) abort(); }
static long ms = 400;
static void pause_ms(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; while (nanosleep(&t, &t) && errno == EINTR); }
static void tell(const char *name, long number) { printf("%s %ld\n", name, number); fflush(stdout); }
#define WAITS(name) __attribute__((noinline)) static void name
WAITS(in_pipe)(int fd) { char c; if (read(fd, &c, 1) < 0) abort(); sink++; }
WAITS(in_full_pipe)(int fd) { static char room[1 << 16]; if (write(fd, room, sizeof room) < 0) abort(); sink++; }
WAITS(in_fifo)(int fd) { char c; if (read(fd, &c, 1) < 0) abort(); sink++; }
WAITS(in_unix)(int fd) { char c; if (recv(fd, &c, 1, 0) < 0) abort(); sink++; }
WAITS(in_tcp)(int fd) { char c; if (recv(fd, &c, 1, 0) < 0) abort(); sink++; }
WAITS(in_poll)(int fd) { struct pollfd p = {fd, POLLIN, 0}; if (poll(&p, 1, -1) < 0) abort(); sink++; }
WAITS(in_select)(int fd) { fd_set set; FD_ZERO(&set); FD_SET(fd, &set); if (select(fd + 1, &set, 0, 0, 0) < 0) abort(); sink++; }
WAITS(in_epoll)(int set) { struct epoll_event e; if (epoll_wait(set, &e, 1, -1) < 0) abort(); sink++; }
WAITS(in_eventfd)(int fd) { uint64_t n; if (read(fd, &n, 8) < 0) abort(); sink++; }
WAITS(in_child)(pid_t pid) { if (waitpid(pid, 0, 0) < 0) abort(); sink++; }
WAITS(in_any_child)(void) { if (waitpid(-1, 0, 0) < 0) abort(); sink++; }
WAITS(in_pidfd)(int fd) { siginfo_t i; if (waitid(3, fd, &i, WEXITED)) abort(); sink++; }
WAITS(in_flock)(int fd) { if (flock(fd, LOCK_EX)) abort(); sink++; }
WAITS(in_fcntl)(int fd) { struct flock l = {.l_type = F_WRLCK}; if (fcntl(fd, F_SETLKW, &l)) abort(); sink++; }
WAITS(in_mutex)(pthread_mutex_t *m) { pthread_mutex_lock(m); sink++; }
WAITS(in_shared_mutex)(pthread_mutex_t *m) { pthread_mutex_lock(m); sink++; }
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int owns;
static void *owner(void *none) { pthread_mutex_lock(&mutex); owns = syscall(SYS_gettid); pause_ms(ms); pthread_mutex_unlock(&mutex); return none; }
/* Waits for a child that uses the other end after a time. */
static void after_child(const char *name, int fd, int other, void (*waits)(int), int reads) {
    static char room[1 << 17];
    pid_t pid = fork();
    if (!pid) {
        close(fd);
        pause_ms(ms);
        need((reads ? read(other, room, sizeof room) : write(other, "x", 1)) < 0);
        pause_ms(5);
        _exit(0);
    }
    tell(name, pid);
    close(other);
    waits(fd);
    close(fd);
    waitpid(pid, 0, 0);
}
static pid_t sleeper(void) {
    pid_t pid = fork();
    if (!pid) {
        pause_ms(ms);
        _exit(0);
    }
    return pid;
}
/* Waits for a lock that a child has taken. */
static void locks(const char *name, void (*lock)(int), void (*waits)(int)) {
    int ready[2];
    char c;
    need(pipe(ready));
    pid_t pid = fork();
    if (!pid) {
        lock(open("lock", O_RDWR | O_CREAT, 0600));
        need(write(ready[1], "x", 1) < 0);
        pause_ms(ms);
        _exit(0);
    }
    need(read(ready[0], &c, 1) < 0);
    close(ready[0]);
    close(ready[1]);
    tell(name, pid);
    int fd = open("lock", O_RDWR | O_CREAT, 0600);
    waits(fd);
    close(fd);
    waitpid(pid, 0, 0);
}
static void do_flock(int fd) { flock(fd, LOCK_EX); }
static void do_fcntl(int fd) { struct flock l = {.l_type = F_WRLCK}; fcntl(fd, F_SETLK, &l); }
static void wait_in_all_ways(void) {
    int p[2];
    need(pipe(p));
    after_child("in_pipe", p[0], p[1], in_pipe, 0);

    static char fill[1 << 16];
    need(pipe(p) || write(p[1], fill, sizeof fill) < 0);
    after_child("in_full_pipe", p[1], p[0], in_full_pipe, 1);

    unlink("fifo");
    need(mkfifo("fifo", 0600));
    p[0] = open("fifo", O_RDONLY | O_NONBLOCK);
    p[1] = open("fifo", O_WRONLY);
    fcntl(p[0], F_SETFL, 0);
    after_child("in_fifo", p[0], p[1], in_fifo, 0);

    need(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    after_child("in_unix", p[0], p[1], in_unix, 0);

    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(bind(listener, (void *)&address, length) || listen(listener, 1));
    getsockname(listener, (void *)&address, &length);
    p[1] = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(p[1], (void *)&address, length));
    p[0] = accept(listener, 0, 0);
    close(listener);
    after_child("in_tcp", p[0], p[1], in_tcp, 0);

    need(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    after_child("in_poll", p[0], p[1], in_poll, 0);
    need(pipe(p));
    after_child("in_select", p[0], p[1], in_select, 0);

    need(socketpair(AF_UNIX, SOCK_STREAM, 0, p));
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, p[0], &event);
    pid_t pid = fork();
    if (!pid) {
        close(p[0]);
        close(set);
        pause_ms(ms);
        need(write(p[1], "x", 1) < 0);
        _exit(0);
    }
    tell("in_epoll", pid);
    close(p[1]);
    in_epoll(set);
    waitpid(pid, 0, 0);
    close(set);
    close(p[0]);

    int counter = eventfd(0, 0);
    pid = fork();
    if (!pid) {
        uint64_t one = 1;
        pause_ms(ms);
        need(write(counter, &one, 8) < 0);
        _exit(0);
    }
    tell("in_eventfd", pid);
    in_eventfd(counter);
    close(counter);
    waitpid(pid, 0, 0);

    tell("in_child", pid = sleeper());
    in_child(pid);
    tell("in_any_child", sleeper());
    in_any_child();
    tell("in_pidfd", pid = sleeper());
    int process = syscall(SYS_pidfd_open, pid, 0);
    in_pidfd(process);
    close(process);

    locks("in_flock", do_flock, in_flock);
    locks("in_fcntl", do_fcntl, in_fcntl);

    pthread_t thread;
    pthread_create(&thread, 0, owner, 0);
    while (!owns) pause_ms(1);
    tell("in_mutex", owns);
    in_mutex(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, 0);

    pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *flag = (int *)(shared + 1);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, 1);
    pthread_mutex_init(shared, &attributes);
    pid = fork();
    if (!pid) {
        pthread_mutex_lock(shared);
        *flag = 1;
        pause_ms(ms);
        pthread_mutex_unlock(shared);
        _exit(0);
    }
    while (!*flag) pause_ms(1);
    tell("in_shared_mutex", pid);
    in_shared_mutex(shared);
    pthread_mutex_unlock(shared);
    waitpid(pid, 0, 0);
    unlink("fifo");
    unlink("lock");
    munmap(shared, 4096);
    owns = 0;
}
int main(int count, char **words) {
    if (count != 3) return 2;
    mpprof_join();
    ms = atol(words[1]);
    for (long i = atol(words[2]); i > 0; i--) wait_in_all_ways();
    return 0;
}
