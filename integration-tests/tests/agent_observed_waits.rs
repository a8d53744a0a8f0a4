//! Tests of what `profiler record` sees of a program from outside: where threads wait,
//! threads of which the program's file knows nothing, memory and processor time.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::profile::{Process, Thread};
use integration_tests::{own_process, tools};
use serde_json::Value;

/// Waits in functions of known names, for a time that is passed. Prints the processor time that the
/// process has used.
const WAITER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static volatile unsigned long sink;
static volatile int has_ended;
static int ends[2];
__attribute__((noinline)) static void wait_in_read(void) {
    char byte;
    if (read(ends[0], &byte, 1) < 0) abort();
    sink++;
}
__attribute__((noinline)) static void wait_in_sleep(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, 0);
    sink++;
}
static void *only_wait(void *none) {
    pthread_setname_np(pthread_self(), "only-waits");
    wait_in_read();
    return none;
}
/* A thread without the C library's knowledge: it has no timer. */
static int spin(void *ms) {
    prctl(PR_SET_NAME, "unknown", 0, 0, 0);
    long end = now(CLOCK_THREAD_CPUTIME_ID) + (long)ms * 1000000;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end) for (int i = 0; i < 100000; i++) sink = sink * 31 + i;
    has_ended = 1;
    for (;;) pause();
    return 0;
}
static char stack[1 << 16] __attribute__((aligned(16)));
int main(int count, char **words) {
    if (count < 3 || pipe(ends)) return 2;
    const char *kind = words[1];
    long ms = atol(words[2]);
    if (!strcmp(kind, "raw")) {
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
        if (clone(spin, stack + sizeof stack, flags, (void *)ms) < 0) return 3;
        while (!has_ended) wait_in_sleep(1);
    } else {
        pthread_t thread;
        pthread_create(&thread, 0, only_wait, 0);
        wait_in_sleep(ms);
        if (!strcmp(kind, "killed")) raise(SIGKILL);
        if (write(ends[1], "x", 1) != 1) return 4;
        pthread_join(thread, 0);
    }
    printf("%ld\n", now(CLOCK_PROCESS_CPUTIME_ID));
    fflush(stdout);
    return 0;
}
"#;

/// Records the program. The profile is in the processed format: the other one has no weights.
fn record(place: &Workplace, words: &[&str]) -> anyhow::Result<Recorded> {
    let waiter = place.compile("waiter", WAITER, &["-O1", "-pthread"])?;
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "-o", "out.json", "--"]);
    command.arg(waiter).args(words).current_dir(place.path());
    command.env("XDG_CACHE_HOME", tools::cache()?);
    Ok(place.recorded(command.stdin(Stdio::null()).output()?))
}

/// The milliseconds that threads were in a function, running or waiting.
fn wall_ms(place: &Workplace, function: &str) -> anyhow::Result<f64> {
    let profile = place.path().join("out.json");
    let profile = profile.to_str().context("a path")?;
    let said = tools::run(&["info", "--json", "--by", "wall", "--top", "100", profile])?;
    let info: Value = serde_json::from_str(&said.out)?;
    let rows = info["samples"]["top"].as_array().context("no functions")?;
    let row = rows.iter().find(|row| row["function"] == function);
    let row = row.with_context(|| format!("{function} is not in {rows:?}"))?;
    row["total_ms"].as_f64().context("no time")
}

fn thread<'a>(process: &'a Process, name: &str) -> anyhow::Result<&'a Thread> {
    let mut threads = process.threads.iter();
    let names: Vec<_> = threads.clone().map(|thread| &thread.name).collect();
    let found = threads.find(|thread| thread.name == name);
    found.with_context(|| format!("{name} is not among {names:?}"))
}

fn cpu_ns(thread: &Thread) -> u64 {
    let samples = thread.samples.all.iter();
    samples.filter_map(|sample| sample.cpu_ns).sum()
}

/// The last value of a counter.
fn counter(process: &Process, name: &str) -> anyhow::Result<f64> {
    let found = process.counters.iter().find(|counter| counter.name == name);
    let counter = found.with_context(|| format!("no counter {name}"))?;
    Ok(counter.changes.iter().map(|change| change.count).sum())
}

/// What the program has printed.
fn printed(recorded: &Recorded) -> anyhow::Result<u64> {
    let text = String::from_utf8_lossy(&recorded.output.stdout);
    text.trim().parse().with_context(|| recorded.said())
}

#[test]
fn waits_have_their_stacks_and_their_times() -> anyhow::Result<()> {
    own_process!();
    const MS: f64 = 2000.0;
    let place = Workplace::new()?;
    for kind in ["waits", "killed"] {
        let recorded = record(&place, &[kind, &MS.to_string()])?;
        let profile = recorded.profile()?;
        let process = profile.process("waiter")?;
        // Only ever waits, so it has no samples of its own.
        let waiting = thread(process, "only-waits")?;
        ensure!(!waiting.samples.all.is_empty(), "{}", recorded.said());
        for function in ["wait_in_read", "wait_in_sleep"] {
            let ms = wall_ms(&place, function)?;
            // The rest is the time up to the first look and, after a kill, from the last one.
            ensure!(ms > MS / 2.0, "{kind}: {ms} ms in {function}");
            ensure!(ms < MS * 2.0, "{kind}: {ms} ms in {function}");
        }
    }
    Ok(())
}

#[test]
fn a_thread_without_a_timer_has_its_processor_time_once() -> anyhow::Result<()> {
    own_process!();
    const NS: u64 = 400_000_000;
    let place = Workplace::new()?;
    let recorded = record(&place, &["raw", &(NS / 1_000_000).to_string()])?;
    let own = printed(&recorded)?;
    let profile = recorded.profile()?;
    let process = profile.process("waiter")?;
    let unknown = cpu_ns(thread(process, "unknown")?);
    ensure!(unknown > NS / 2, "{unknown} of {NS}");
    let all: u64 = process.threads.iter().map(cpu_ns).sum();
    ensure!(all * 100 >= own * 97, "{all} of {own}");
    // The program goes on for a moment after it has printed its time.
    ensure!(all < own + own / 5, "{all} of {own}");
    Ok(())
}

#[test]
fn memory_and_processor_time_are_counters_that_keep_their_last_values() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = record(&place, &["raw", "300"])?;
    #[allow(clippy::cast_precision_loss)] // far below the limit
    let own = printed(&recorded)? as f64;
    let profile = recorded.profile()?;
    let process = profile.process("waiter")?;
    let used = counter(process, "processCPU")?;
    ensure!(used >= own && used < own * 1.2, "{used} of {own}");
    let memory = counter(process, "Resident memory")?;
    // At least the stack of a thread, and no more than its program and the C library.
    ensure!((65_536.0..64e6).contains(&memory), "{memory}");
    Ok(())
}
