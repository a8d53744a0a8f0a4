//! Tests of `profiler record` with programs that fork and execute no other program in the forked
//! process.

use integration_tests::foreign::Workplace;
use integration_tests::own_process;

use crate::agent_record::{does_the_same, has_used, text, used_by};

/// Forks a worker that uses processor time for two seconds, waits for it, and returns its exit
/// code.
const FORKS: &str = r#"
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
__attribute__((noinline)) static double work(void) {
    volatile double sum = 0;
    while (clock() < 2 * CLOCKS_PER_SEC) {
        for (int i = 0; i < 10000; i++) sum += i;
    }
    return sum;
}
int main(void) {
    int status;
    pid_t worker = fork();
    if (worker == 0) return work() < 0 ? 1 : 7;
    if (waitpid(worker, &status, 0) != worker) return 1;
    return WEXITSTATUS(status);
}
"#;

/// Forks while another thread allocates, and returns the exit code of the forked process, which
/// allocates, too, and starts a thread.
const FORKS_WITH_THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int ends;
static void *allocates(void *unused) {
    while (!ends) free(malloc(1000));
    return unused;
}
int main(void) {
    pthread_t thread;
    int status = 1;
    if (pthread_create(&thread, NULL, allocates, NULL)) return 1;
    for (int i = 0; i < 20; i++) {
        pid_t worker = fork();
        if (worker == 0) {
            pthread_t other;
            ends = 1;
            free(malloc(5000));
            if (pthread_create(&other, NULL, allocates, NULL)) _exit(2);
            pthread_join(other, NULL);
            usleep(2000 * i);
            exit(7);
        }
        if (waitpid(worker, &status, 0) != worker || WEXITSTATUS(status) != 7) return 3;
    }
    ends = 1;
    pthread_join(thread, NULL);
    return WEXITSTATUS(status);
}
"#;

/// Forks while it has a second thread, after it has been recorded for some time. The worker uses
/// processor time for a second.
const FORKS_A_LONG_WORKER: &str = r#"
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void *waits(void *unused) {
    for (;;) pause();
    return unused;
}
static void work(void) {
    volatile double sum = 0;
    clock_t end = clock() + CLOCKS_PER_SEC;
    while (clock() < end) sum += 1;
}
int main(void) {
    pthread_t thread;
    int status = 1;
    if (pthread_create(&thread, NULL, waits, NULL)) return 1;
    work();
    pid_t worker = fork();
    if (worker == 0) {
        work();
        _exit(7);
    }
    if (waitpid(worker, &status, 0) != worker) return 2;
    return WEXITSTATUS(status);
}
"#;

#[test]
fn a_forked_process_that_executes_no_other_program_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let forks = place.compile("forks", FORKS, &[])?;
    forked_process_is_recorded(&place, &[text(&forks)])?;
    forked_process_is_recorded(&place, &["sh", "-c", "\"$0\"; exit $?", text(&forks)])
}

fn forked_process_is_recorded(place: &Workplace, program: &[&str]) -> anyhow::Result<()> {
    let recorded = place.record(program)?;
    assert_eq!(
        recorded.output.status.code(),
        Some(7),
        "{}",
        recorded.said()
    );
    let profile = recorded.profile()?;
    let processes = profile.processes.iter();
    let named: Vec<_> = processes
        .filter(|process| process.name == "forks")
        .collect();
    assert_eq!(named.len(), 2, "{:?}", recorded.verdicts("forks")?);
    let is_recorded = has_used(&profile, "forks", 100_000_000);
    assert!(is_recorded, "the worker has no samples");
    Ok(())
}

#[test]
fn a_program_with_several_threads_may_fork() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("threads", FORKS_WITH_THREADS, &["-pthread"])?;
    for _ in 0..3 {
        let recorded = does_the_same(&place, &["sh", "-c", "\"$0\"; exit $?", text(&program)])?;
        assert_eq!(recorded.output.status.code(), Some(7));
    }
    Ok(())
}

#[test]
fn a_forked_process_of_a_program_with_several_threads_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("worker", FORKS_A_LONG_WORKER, &["-pthread"])?;
    let recorded = place.record(&[text(&program)])?;
    assert_eq!(recorded.output.status.code(), Some(7));
    assert_eq!(recorded.verdicts("worker")?, ["complete", "complete"]);
    let profile = recorded.profile()?;
    let workers = profile.processes.iter();
    let workers = workers.filter(|process| process.name == "worker");
    // Each uses a second.
    let least = 970_000_000;
    let used: Vec<u64> = workers.map(used_by).collect();
    assert!(used.iter().all(|used| *used >= least), "{used:?}");
    Ok(())
}
