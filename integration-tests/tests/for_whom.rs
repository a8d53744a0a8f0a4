//! Tests of what a profile says about waits: for whom a thread waits, what the other side does
//! meanwhile, and the critical path.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::{own_process, tools};
use serde_json::Value;

/// Waits for another process or thread in each way that leads to its holder.
const WAITS: &str = include_str!("data/waits.c");

/// A parent that asks a worker for work, which computes for a part of the time and sleeps for another.
/// Prints how long each of them was on the path to the end, in milliseconds.
const PATH: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000L + t.tv_nsec / 1000000; }
static void spin(long ms) { long end = now(CLOCK_THREAD_CPUTIME_ID) + ms; while (now(CLOCK_THREAD_CPUTIME_ID) < end) sink++; }
__attribute__((noinline)) static void parent_computes(void) { spin(300); }
__attribute__((noinline)) static void worker_computes(void) { spin(600); }
__attribute__((noinline)) static void worker_sleeps(void) { usleep(500000); sink++; }
__attribute__((noinline)) static void parent_collects(int fd) { char c; if (read(fd, &c, 1) < 0) abort(); sink++; }
int main(void) {
    int question[2], answer[2];
    if (pipe(question) || pipe(answer)) return 2;
    pid_t worker = fork();
    if (!worker) {
        char c;
        close(question[1]); close(answer[0]);
        while (read(question[0], &c, 1) == 1) {
            worker_computes();
            worker_sleeps();
            if (write(answer[1], &c, 1) < 1) return 3;
        }
        _exit(0);
    }
    close(question[0]); close(answer[1]);
    long begin = now(CLOCK_MONOTONIC), first, second;
    parent_computes();
    first = now(CLOCK_MONOTONIC);
    if (write(question[1], "x", 1) < 1) return 4;
    parent_collects(answer[0]);
    second = now(CLOCK_MONOTONIC);
    close(question[1]);
    waitpid(worker, 0, 0);
    printf("parent %ld\nworker %ld\n", first - begin, second - first);
    return 0;
}
"#;

/// Records a program; the profile is in the processed format.
fn record(place: &Workplace, program: &Path, words: &[&str]) -> anyhow::Result<Recorded> {
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "-o", "out.json", "--"]);
    command.arg(program).args(words).current_dir(place.path());
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let recorded = place.recorded(command.stdin(Stdio::null()).output()?);
    ensure!(recorded.output.status.success(), "{}", recorded.said());
    Ok(recorded)
}

/// The answer of `profiler waits --json` about the profile.
fn waits(place: &Workplace, options: &[&str]) -> anyhow::Result<Value> {
    let profile = place.path().join("out.json");
    let profile = profile.to_str().context("a path")?;
    let mut words = vec!["waits", "--json", profile];
    words.extend(options);
    Ok(serde_json::from_str(&tools::run(&words)?.out)?)
}

/// The lines `NAME NUMBER` that a program has printed.
fn printed(recorded: &Recorded) -> anyhow::Result<BTreeMap<String, String>> {
    let text = String::from_utf8(recorded.output.stdout.clone())?;
    let line = |line: &str| {
        let (name, number) = line.split_once(' ').context("two words")?;
        Ok((name.to_owned(), number.to_owned()))
    };
    text.lines().map(line).collect()
}

/// The waits in a function: for whom, and how many milliseconds.
fn waits_in(report: &Value, function: &str) -> anyhow::Result<Vec<(String, f64)>> {
    let threads = report["threads"].as_array().context("threads")?;
    let rows = threads.iter().filter_map(|thread| thread["waits"].as_array());
    let rows = rows.flatten().filter(|row| row["place"] == function);
    let row = |row: &Value| {
        let whom = row["for"].as_str().unwrap_or_default().to_owned();
        Ok((whom, row["ms"].as_f64().context("a time")?))
    };
    rows.map(row).collect()
}

#[test]
fn each_wait_has_the_process_or_thread_that_can_end_it() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("waits", WAITS, &["-pthread"])?;
    let recorded = record(&place, &program, &["400"])?;
    let holders = printed(&recorded)?;
    ensure!(holders.len() == 16, "{holders:?}");
    let report = waits(&place, &[])?;
    for (function, holder) in holders {
        let rows = waits_in(&report, &function)?;
        let named = format!("[{holder}]");
        let right = |(whom, _): &&(String, f64)| whom.ends_with(&named) && !whom.contains(" or ");
        let right: f64 = rows.iter().filter(right).map(|(_, ms)| ms).sum();
        let all: f64 = rows.iter().map(|(_, ms)| ms).sum();
        ensure!(right > 0.0, "{function} does not wait for {holder}: {rows:?}");
        // A first look may come before the holder is known. No other process is ever named.
        let wrong = rows.iter().filter(|(whom, _)| whom.contains('[') && !whom.contains(&named));
        ensure!(wrong.count() == 0, "{function} waits for {holder}: {rows:?}");
        ensure!(right >= all / 2.0, "{function} waits for {holder}: {rows:?}");
    }
    Ok(())
}

#[test]
fn a_wait_shows_what_the_other_side_did_meanwhile() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("path", PATH, &[])?;
    record(&place, &program, &[])?;
    let report = waits(&place, &[])?.to_string();
    let row = report.find("parent_collects").context("no wait of the parent")?;
    let after = report.get(row..).unwrap_or_default();
    ensure!(after.contains("worker_computes") || after.contains("spin"), "{after}");
    ensure!(after.contains("worker_sleeps"), "{after}");
    Ok(())
}

#[test]
fn the_critical_path_leads_through_the_worker_and_sums_to_the_wall_time() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("path", PATH, &[])?;
    let recorded = record(&place, &program, &[])?;
    let true_ms = printed(&recorded)?;
    let path = waits(&place, &["--path"])?;
    let parts = path["parts"].as_array().context("parts")?;
    let ms = |part: &Value| part["ms"].as_f64().unwrap_or_default();
    let all: f64 = parts.iter().map(ms).sum();
    let length = path["ms"].as_f64().context("a length")?;
    ensure!((all - length).abs() < 0.01, "{all} of {length}");
    let told = |names: &[&str]| -> f64 {
        let is_named = |part: &&Value| names.iter().any(|name| part["function"] == *name);
        parts.iter().filter(is_named).map(ms).sum()
    };
    let sleeps = told(&["worker_sleeps"]);
    ensure!(sleeps > 300.0, "{sleeps} ms of sleep in {parts:?}");
    let collects = told(&["parent_collects"]);
    let worker: f64 = true_ms.get("worker").context("no time of the worker")?.parse()?;
    // The parent's wait is not on the path: what the worker did is.
    ensure!(collects < worker / 4.0, "{collects} of {worker} in {parts:?}");
    Ok(())
}

#[test]
fn a_profile_without_a_named_process_gets_a_clear_answer() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = place.compile("path", PATH, &[])?;
    record(&place, &program, &[])?;
    let profile = place.path().join("out.json");
    let profile = profile.to_str().context("a path")?;
    for (words, said) in [
        (["--process", "nothing"], "the profile has no process nothing"),
        (["--path", "nothing"], "the profile has no process or marker interval nothing"),
    ] {
        let mut command = Command::new(tools::profiler()?);
        let output = command.args(["waits", profile]).args(words).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2) && text.contains(said), "{text}");
    }
    Ok(())
}
