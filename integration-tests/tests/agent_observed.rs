//! Tests of `profiler record`: nothing of the profiler's is in the programs but a shared
//! file, a signal handler and timers.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use anyhow::Context;
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::profile::Profile;
use integration_tests::{own_process, programs, tools};
use serde_json::Value;

/// Uses processor time in a function, alone, in three threads or in four forked children, and prints
/// how much the main process has used.
const SPIN: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long cpu(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static volatile unsigned long sink;
__attribute__((noinline)) static void hot_function(long ms) {
    long end = cpu(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000;
    while (cpu(CLOCK_THREAD_CPUTIME_ID) < end) for (int i = 0; i < 100000; i++) sink = sink * 31 + i;
}
static void *run(void *ms) { hot_function((long)ms); return 0; }
int main(int count, char **words) {
    if (count < 3) return 2;
    const char *kind = words[1];
    long ms = atol(words[2]);
    if (!strcmp(kind, "threads")) {
        pthread_t all[3];
        for (int i = 0; i < 3; i++) pthread_create(&all[i], 0, run, (void *)ms);
        for (int i = 0; i < 3; i++) pthread_join(all[i], 0);
    } else if (!strcmp(kind, "workers")) {
        for (int i = 0; i < 4; i++)
            if (!fork()) { if (getuid() == 0 && (setgid(65534) || setuid(65534))) _exit(9); hot_function(ms); _exit(0); }
        while (wait(0) > 0) continue;
    } else if (!strcmp(kind, "blocked")) {
        sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);
        hot_function(ms);
    } else if (!strcmp(kind, "masks")) {
        sigset_t set; sigemptyset(&set); sigaddset(&set, SIGUSR1);
        long end = cpu(CLOCK_THREAD_CPUTIME_ID) + ms * 1000000;
        while (cpu(CLOCK_THREAD_CPUTIME_ID) < end)
            for (int i = 0; i < 1000; i++) { sigprocmask(SIG_BLOCK, &set, 0); signal(SIGUSR2, SIG_IGN); }
    } else if (!strcmp(kind, "killed")) {
        hot_function(ms); raise(SIGKILL);
    } else hot_function(ms);
    printf("%ld\n", cpu(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
"#;

fn record(place: &Workplace, words: &[&str]) -> anyhow::Result<Recorded> {
    let spin = place.compile("spin", SPIN, &["-O1", "-pthread"])?;
    let spin = spin.to_str().context("a path")?;
    place.record(&[&[spin], words].concat())
}

/// The processor time in the samples of all processes of this name, in nanoseconds.
fn sampled_ns(profile: &Profile, name: &str) -> u64 {
    let processes = profile
        .processes
        .iter()
        .filter(|process| process.name == name);
    let threads = processes.flat_map(|process| &process.threads);
    let samples = threads.flat_map(|thread| &thread.samples.all);
    samples.filter_map(|sample| sample.cpu_ns).sum()
}

/// How many samples have a stack in the test program, and how many there are.
fn in_program(profile: &Profile) -> (usize, usize) {
    let threads = profile
        .processes
        .iter()
        .flat_map(|process| &process.threads);
    threads.fold((0, 0), |(inside, all), thread| {
        let (here, _) = thread.samples.of(|name| name.starts_with("spin+"));
        (inside + here, all + thread.samples.all.len())
    })
}

#[test]
fn all_processor_time_of_a_program_is_in_samples() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for kind in ["alone", "threads", "blocked"] {
        let recorded = record(&place, &[kind, "400"])?;
        assert!(recorded.output.status.success(), "{}", recorded.said());
        let own: u64 = String::from_utf8_lossy(&recorded.output.stdout)
            .trim()
            .parse()?;
        let profile = recorded.profile()?;
        let sampled = sampled_ns(&profile, "spin");
        assert!(sampled * 100 >= own * 97, "{kind}: {sampled} of {own}");
        // The program goes on for a moment after it has printed its time.
        assert!(sampled < own + own / 5, "{kind}: {sampled} of {own}");
        let (inside, all) = in_program(&profile);
        assert!(inside * 10 >= all * 8, "{kind}: {inside} of {all}");
        assert_eq!(
            recorded.verdicts("spin")?,
            ["complete"],
            "{}",
            recorded.said()
        );
    }
    Ok(())
}

#[test]
fn workers_that_change_their_user_are_in_the_profile_with_their_time() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = record(&place, &["workers", "100"])?;
    let profile = recorded.profile()?;
    let processes = profile
        .processes
        .iter()
        .filter(|process| process.name == "spin");
    assert_eq!(processes.count(), 5, "{}", recorded.said());
    let sampled = sampled_ns(&profile, "spin");
    assert!(sampled >= 400_000_000, "{sampled}");
    Ok(())
}

#[test]
fn a_killed_program_keeps_its_samples() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = record(&place, &["killed", "400"])?;
    assert_eq!(recorded.output.status.signal(), Some(9));
    let sampled = sampled_ns(&recorded.profile()?, "spin");
    assert!(sampled >= 300_000_000, "{sampled}");
    Ok(())
}

#[test]
fn every_short_program_is_in_the_profile() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let script = "for i in $(seq 200); do /bin/true; done; exit 3";
    let recorded = place.record(&["/bin/sh", "-c", script])?;
    assert_eq!(recorded.output.status.code(), Some(3));
    let profile = recorded.profile()?;
    let runs = profile
        .processes
        .iter()
        .filter(|process| process.name == "true");
    assert_eq!(runs.count(), 200, "{}", recorded.said());
    Ok(())
}

#[test]
fn well_known_programs_do_the_same() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let known = [
        programs::bash()?,
        programs::git()?,
        programs::make(&place)?,
        programs::python(&place, "fork")?,
        programs::node(&place)?,
        programs::java(&place)?,
    ];
    for program in known.iter().flatten() {
        let words: Vec<&str> = program.iter().map(String::as_str).collect();
        let alone = place.run(&words)?;
        let recorded = place.record(&words)?;
        assert_eq!(
            recorded.output.status.code(),
            alone.status.code(),
            "{words:?}"
        );
        let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            string(&recorded.output.stdout),
            string(&alone.stdout),
            "{words:?}"
        );
        assert!(!recorded.profile()?.processes.is_empty());
    }
    Ok(())
}

#[test]
fn filters_of_threads_and_features_concern_observed_programs() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-O1", "-pthread"])?;
    let spin = spin.to_str().context("a path")?;
    let program = [spin, "alone", "200"];
    let least = 194_000_000;
    for (options, has_time, has_stacks) in [
        (&["--filter", "spin"][..], true, true),
        (&["--filter", "another name"], false, false),
        (
            &[
                "--filter",
                "another name",
                "--features",
                "default,cpuallthreads",
            ],
            true,
            false,
        ),
        (&["--features", "cpu"], true, false),
    ] {
        let profile = place.record_with(options, &program)?.profile()?;
        let sampled = sampled_ns(&profile, "spin");
        assert_eq!(sampled >= least, has_time, "{options:?}: {sampled}");
        assert_eq!(in_program(&profile).0 > 0, has_stacks, "{options:?}");
    }
    Ok(())
}

#[test]
fn the_profile_states_how_much_of_the_time_is_in_samples() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = record(&place, &["threads", "300"])?;
    let json = recorded.profile()?.json;
    let (used, in_samples, with_stacks) = observed_us(&json)?;
    let own: u64 = String::from_utf8_lossy(&recorded.output.stdout)
        .trim()
        .parse()?;
    // The program goes on for a moment after it has printed its time.
    assert!(
        used >= own / 1000 && used < own / 1000 * 6 / 5,
        "{used} of {own}"
    );
    // On a busy machine the reader may be late; then the time of some samples has no stack.
    let has_most = in_samples * 100 >= used * 97 && with_stacks * 2 >= used;
    assert!(
        has_most && with_stacks <= in_samples && in_samples <= used,
        "{with_stacks} and {in_samples} of {used}"
    );
    assert!(in_meta(&json), "{}", json["meta"]["extra"]);
    let file = place.path().join("out.json");
    let text = tools::run(&[Path::new("info"), &file])?.out;
    let sentence = "s of processor time that the observed processes used is in samples, ";
    assert!(
        text.contains(sentence) && text.contains("in samples  verdict"),
        "{text}"
    );
    let report = tools::run(&[Path::new("info"), Path::new("--json"), &file])?.out;
    let report: Value = serde_json::from_str(&report)?;
    let rows = report["processes"].as_array().context("no processes")?;
    let spin = rows.iter().find(|row| row["name"] == "spin");
    let observed = &spin.context("no row")?["observed"];
    assert_eq!(
        [
            observed["used_us"].as_u64(),
            observed["recorded_us"].as_u64()
        ],
        [Some(used), Some(in_samples)],
        "the only process"
    );
    let spin = place.path().join("spin");
    let spin = spin.to_str().context("a path")?;
    let gecko = place.record_with(&["--format", "gecko"], &[spin, "alone", "20"])?;
    let text = std::fs::read_to_string(&file)?;
    assert!(in_meta(&serde_json::from_str(&text)?), "{}", gecko.said());
    Ok(())
}

/// The processor time of the observed processes in microseconds, by the log: all, in samples, in
/// samples with stacks.
fn observed_us(profile: &Value) -> anyhow::Result<(u64, u64, u64)> {
    let log = profile["profileGatheringLog"].as_object();
    let log = log.and_then(|log| log.values().next());
    let observed = &log.context("no log")?["observed"];
    let time = |name: &str| observed[name].as_u64().context("no time");
    Ok((time("usedUs")?, time("recordedUs")?, time("sampledUs")?))
}

/// Whether the properties of a profile state how much of the time is in samples.
fn in_meta(profile: &Value) -> bool {
    let sections = profile["meta"]["extra"].as_array().into_iter().flatten();
    let mut entries = sections.filter_map(|section| section["entries"].as_array());
    entries.any(|entries| {
        let mut labels = entries.iter().map(|entry| &entry["label"]);
        labels.any(|label| label == "In samples with stacks")
    })
}

#[test]
fn processes_without_samples_are_in_the_total_and_have_their_time() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let script = "for i in $(seq 100); do /bin/true; done";
    let recorded = place.record(&["/bin/sh", "-c", script])?;
    let (used, in_samples, _) = observed_us(&recorded.profile()?.json)?;
    assert!(in_samples * 100 >= used * 98, "{in_samples} of {used}");
    let info = tools::info(&place.path().join("out.json"))?;
    let all_ms = info["samples"]["all_ms"].as_f64().context("no time")?;
    let used_ms = used as f64 / 1e3;
    assert!(
        (all_ms - used_ms).abs() < used_ms * 0.05,
        "{all_ms} of {used_ms}"
    );
    assert_eq!(info["samples"]["top"][0]["function"], "(no stack)");
    let rows = info["processes"].as_array().context("no processes")?;
    let programs = rows.iter().filter(|row| row["name"] == "true");
    let with_time = programs.filter(|row| row["cpu_ms"].as_f64().is_some_and(|ms| ms > 0.0));
    assert_eq!(with_time.count(), 100, "{info}");
    Ok(())
}

#[test]
fn the_preloaded_library_is_in_no_stack() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let recorded = record(&place, &["masks", "300"])?;
    let profile = recorded.profile()?;
    let (inside, all) = in_program(&profile);
    assert!(inside > 20 && inside * 10 >= all * 8, "{inside} of {all}");
    let processes = profile.processes.iter();
    for thread in processes.flat_map(|process| &process.threads) {
        let of_library = thread
            .samples
            .of(|name| name.starts_with("libprofiler_observed"));
        assert_eq!(of_library.0, 0, "{}", recorded.said());
    }
    Ok(())
}
