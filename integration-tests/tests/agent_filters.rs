//! Tests of `profiler record` with programs that filter their own system calls while they are
//! recorded. Each program does the same as without the profiler: the filter never ends it because
//! of a call of the profiler, and the profiler does not repeat a refused call in a busy loop.

use integration_tests::foreign::Workplace;
use integration_tests::own_process_tests;

use crate::agent_record::{does_the_same, has_used, text, used_by};

/// Uses 200 ms of processor time, filters its system calls as its argument says, computes about as
/// long as before, and ends with a raw system call.
///
/// With `few`, the filter kills the process at any call except the few that parsers need. With
/// `strict`, the program enters the strict mode of the system, which kills the process at any call
/// except `read`, `write`, `exit` and `sigreturn`.
const PARSES: &str = r#"
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define MAY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static volatile unsigned long sum;
static void parse(void) { for (int i = 0; i < 1000000; i++) sum = sum * 31 + i; }
static int keep_few(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        MAY(SYS_read), MAY(SYS_write), MAY(SYS_exit), MAY(SYS_exit_group), MAY(SYS_rt_sigreturn),
        MAY(SYS_brk), MAY(SYS_mmap), MAY(SYS_munmap), MAY(SYS_close),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
int main(int count, char **words) {
    int rounds = 0;
    for (; clock() < CLOCKS_PER_SEC / 5; rounds++) parse();
    if (count > 1 && !strcmp(words[1], "strict")) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 2;
    } else if (keep_few()) return 3;
    while (rounds-- > 0) parse();
    if (write(1, "parsed\n", 7) != 7) return 4;
    syscall(SYS_exit, 0);
}
"#;

/// Refuses most system calls in all threads, including `futex`, and then sleeps in two threads.
/// Returns 1 if the processor time of the process during the sleep is more than a quarter of its
/// duration.
const SLEEPS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define MAY(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static volatile int is_filtered;
static long ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
static void sleep_ms(long ms) {
    struct timespec time = {0, 1000000};
    while (ms-- > 0) nanosleep(&time, NULL);
}
static void *run(void *unused) {
    while (!is_filtered) sleep_ms(1);
    sleep_ms(500);
    return unused;
}
int main(void) {
    pthread_t thread;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        MAY(SYS_read), MAY(SYS_write), MAY(SYS_exit), MAY(SYS_exit_group), MAY(SYS_rt_sigreturn),
        MAY(SYS_clock_gettime), MAY(SYS_nanosleep), MAY(SYS_clock_nanosleep),
        MAY(SYS_restart_syscall), MAY(SYS_munmap), MAY(SYS_madvise), MAY(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (pthread_create(&thread, NULL, run, NULL)) return 2;
    while (clock() < CLOCKS_PER_SEC / 5) continue;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 3;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return 4;
    is_filtered = 1;
    long used = ns(CLOCK_PROCESS_CPUTIME_ID), at = ns(CLOCK_MONOTONIC);
    sleep_ms(500);
    used = ns(CLOCK_PROCESS_CPUTIME_ID) - used;
    at = ns(CLOCK_MONOTONIC) - at;
    _exit(used > at / 4);
}
"#;

/// Checks that a program does the same and succeeds when it is recorded, and that the profile has
/// the 200 ms that it uses before it filters its calls.
fn is_unharmed(name: &str, source: &str, words: &[&str]) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let program = place.compile(name, source, &["-pthread"])?;
    for _ in 0..3 {
        let recorded = does_the_same(&place, &[&[text(&program)], words].concat())?;
        assert_eq!(recorded.output.status.code(), Some(0), "{words:?}");
        let profile = recorded.profile()?;
        let used: Vec<u64> = profile.processes.iter().map(used_by).collect();
        let said = recorded.said();
        let has_time = has_used(&profile, name, 194_000_000);
        assert!(has_time, "{words:?}: {used:?} ns; {said}");
        // The files that it has made in reserve are no programs.
        assert!(!said.contains("more programs"), "{words:?}: {said}");
    }
    Ok(())
}

own_process_tests! {
    a_program_may_kill_itself_for_all_calls_that_it_does_not_need:
        is_unharmed("parses", PARSES, &["few"]);
    a_program_may_enter_the_strict_mode: is_unharmed("parses", PARSES, &["strict"]);
    a_program_that_refuses_calls_uses_no_time_while_it_sleeps: is_unharmed("sleeps", SLEEPS, &[]);
}
