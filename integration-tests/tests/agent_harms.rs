//! Tests of `profiler record` with programs that a recorder inside the process can harm: programs
//! that count their threads, have allocators that no other thread may use, cancel their threads, or
//! run in namespaces of their own. Each program does the same as without the profiler, and its
//! processor time is in the profile.

use integration_tests::foreign::{Workplace, is_installed};
use integration_tests::own_process;

use crate::agent_record::{SPIN, does_the_same, has_used, text};

/// Uses processor time, and returns 1 if the process does not have exactly one thread. The zygotes
/// of browsers check the same.
const COUNTS: &str = r#"
#include <sys/stat.h>
#include <time.h>
int main(void) {
    struct stat about;
    while (clock() < CLOCKS_PER_SEC / 5) continue;
    return stat("/proc/self/task", &about) || about.st_nlink != 3;
}
"#;

/// Cancels threads with deep stacks while they run, at any instruction.
const CANCELS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static volatile int runs;
static volatile unsigned long count;
static void *run(void *unused) {
    volatile char deep[60000];
    memset((void *)deep, 1, sizeof deep);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    runs = 1;
    for (;;) count += deep[count % sizeof deep];
    return unused;
}
int main(void) {
    unsigned random = 7;
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        void *result;
        runs = 0;
        if (pthread_create(&thread, NULL, run, NULL)) return 1;
        while (!runs) continue;
        random = random * 1664525u + 1013904223u;
        usleep(1000 + (random >> 8) % 5000);
        if (pthread_cancel(thread) || pthread_join(thread, &result)) return 2;
        if (result != PTHREAD_CANCELED) return 3;
    }
    puts("canceled");
    return 0;
}
"#;

/// Has an allocator that is not safe for threads, and fails if another thread has used it. With an
/// argument, a signal handler that interrupts the allocator calls `exit` with status 9.
const ALLOCATES: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
struct block { size_t size; struct block *next; uint64_t mark, unused; };
static struct block *lists[48];
static char *at, *end;
static volatile int is_inside;
static void *more(size_t bytes) {
    if ((size_t)(end - at) < bytes) {
        size_t length = bytes > 4 << 20 ? bytes + 4096 : 4 << 20;
        at = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + length;
    }
    at += bytes;
    return at - bytes;
}
static void enter(void) { if (is_inside) _exit(42); is_inside = 1; }
void *malloc(size_t bytes) {
    size_t size = 5;
    while (((size_t)1 << size) < bytes + sizeof(struct block)) size++;
    enter();
    struct block *block = lists[size];
    if (block && block->mark != 2) _exit(43);
    if (block) lists[size] = block->next;
    else block = more((size_t)1 << size);
    block->size = size;
    block->mark = 1;
    is_inside = 0;
    return block + 1;
}
void free(void *memory) {
    struct block *block = (struct block *)memory - 1;
    if (!memory) return;
    enter();
    if (block->mark != 1) _exit(44);
    block->mark = 2;
    block->next = lists[block->size];
    lists[block->size] = block;
    is_inside = 0;
}
void *calloc(size_t count, size_t bytes) {
    void *memory = malloc(count * bytes);
    memset(memory, 0, count * bytes);
    return memory;
}
void *realloc(void *memory, size_t bytes) {
    void *other = malloc(bytes);
    struct block *block = (struct block *)memory - 1;
    if (!memory) return other;
    size_t had = ((size_t)1 << block->size) - sizeof(struct block);
    memcpy(other, memory, had < bytes ? had : bytes);
    free(memory);
    return other;
}
static void leave(int signal) { (void)signal; exit(9); }
int main(int count, char **words) {
    void *all[256] = {0};
    unsigned random = 1;
    (void)words;
    if (count > 1) {
        struct itimerval timer = {{0, 0}, {0, 60000}};
        signal(SIGALRM, leave);
        setitimer(ITIMER_REAL, &timer, 0);
    }
    while (count > 1 || clock() < CLOCKS_PER_SEC / 2) {
        for (int i = 0; i < 1000; i++) {
            random = random * 1664525u + 1013904223u;
            int number = (random >> 8) & 255;
            free(all[number]);
            all[number] = malloc(16 + ((random >> 16) & 511));
        }
    }
    return 0;
}
"#;

/// Blocks SIGURG and reads it from a descriptor, as PostgreSQL does. Prints the number of signals.
const READS_SIGNALS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    struct signalfd_siginfo about;
    sigset_t set;
    int count = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
    while (clock() < CLOCKS_PER_SEC / 5) continue;
    while (read(descriptor, &about, sizeof about) > 0) count++;
    printf("%d\n", count);
    return 0;
}
"#;

/// Checks that a program does the same when it is recorded, and that at least `least_ms`
/// milliseconds of its processor time are in the profile.
fn is_unharmed(name: &str, source: &str, least_ms: u64) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let program = place.compile(name, source, &["-pthread"])?;
    for _ in 0..3 {
        let recorded = does_the_same(&place, &[text(&program)])?;
        let has_time = has_used(&recorded.profile()?, name, least_ms * 1_000_000);
        assert!(has_time, "{name}: {}", recorded.said());
    }
    Ok(())
}

#[test]
fn a_program_that_counts_its_threads_finds_one() -> anyhow::Result<()> {
    own_process!();
    is_unharmed("counts", COUNTS, 194)
}

#[test]
fn threads_may_be_cancelled_at_any_instruction() -> anyhow::Result<()> {
    own_process!();
    is_unharmed("cancels", CANCELS, 1)
}

#[test]
fn the_allocator_of_a_program_is_used_by_the_program_alone() -> anyhow::Result<()> {
    own_process!();
    is_unharmed("allocates", ALLOCATES, 485)
}

#[test]
fn a_program_may_exit_in_a_handler_that_interrupted_its_allocator() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("allocates", ALLOCATES, &[])?;
    for _ in 0..20 {
        let recorded = place.record(&[text(&program), "exits"])?;
        assert_eq!(
            recorded.output.status.code(),
            Some(9),
            "{}",
            recorded.said()
        );
    }
    Ok(())
}

#[test]
fn a_program_that_reads_its_signals_from_a_descriptor_gets_none_of_ours() -> anyhow::Result<()> {
    own_process!();
    is_unharmed("reads", READS_SIGNALS, 194)
}

#[test]
fn a_program_in_namespaces_of_its_own_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    for options in [&["-Urpf"][..], &["-Urpf", "--mount-proc"]] {
        let program = [&["unshare"], options, &[text(&spin), "200"]].concat();
        if !is_installed("unshare") || !place.run(&program)?.status.success() {
            eprintln!("left out: this user may not make namespaces: {options:?}");
            continue;
        }
        let recorded = does_the_same(&place, &program)?;
        let has_time = has_used(&recorded.profile()?, "spin", 194_000_000);
        assert!(has_time, "{options:?}: {:?}", recorded.verdicts("spin")?);
    }
    Ok(())
}

#[test]
fn a_program_below_valgrind_does_the_same() -> anyhow::Result<()> {
    own_process!();
    if !is_installed("valgrind") {
        return Ok(());
    }
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let recorded = place.record(&["valgrind", "-q", text(&spin)])?;
    assert_eq!(
        recorded.output.status.code(),
        Some(0),
        "{:?}",
        recorded.output
    );
    Ok(())
}

/// The handler and the end of a program look at memory that the program has not written.
#[test]
fn valgrind_reports_no_error_that_the_program_does_not_have() -> anyhow::Result<()> {
    own_process!();
    if !is_installed("valgrind") {
        return Ok(());
    }
    let place = Workplace::new()?;
    let program = place.compile("unwritten", UNWRITTEN, &[])?;
    let checked = ["valgrind", "-q", "--error-exitcode=9", text(&program)];
    let recorded = place.record(&checked)?;
    let said = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
    assert_eq!(recorded.output.status.code(), Some(3), "{said}");
    assert!(!said.contains("uninitialised"), "{said}");
    Ok(())
}

/// Computes on a stack of which most was never written.
const UNWRITTEN: &str = r#"
#include <stdint.h>
static uint64_t spin(uint64_t n) { uint64_t s = 0; while (n--) s = s * 31 + n; return s; }
static volatile uint64_t sink;
int main(void) {
    volatile char unwritten[100000];
    unwritten[99999] = 1;
    sink = spin(30000000);
    return 2 + unwritten[99999];
}
"#;
