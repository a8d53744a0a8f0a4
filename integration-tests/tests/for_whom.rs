//! Tests of what a profile says about waits: which process a thread waits for, what that process
//! does meanwhile, and the critical path.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::foreign::Workplace;
use integration_tests::known_holders::{KnownHolders, KnownRun};
use integration_tests::known_waits::compile;
use integration_tests::patience::LONG;
use integration_tests::{own_process, session, tools};
use profiler_parent::core::session::Features;
use profiler_parent::{AlertRules, CapturePolicy, CaptureTrigger, EvidenceOptions};
use serde_json::Value;

use crate::live_support::Page;

#[test]
fn each_wait_has_the_process_or_thread_that_can_end_it() -> anyhow::Result<()> {
    own_process!();
    check_holders(false)
}

#[test]
fn each_wait_of_a_process_that_records_itself_has_its_holder() -> anyhow::Result<()> {
    own_process!();
    check_holders(true)
}

/// Every kind of wait is named, and none wrongly.
fn check_holders(records_itself: bool) -> anyhow::Result<()> {
    let mut named = BTreeSet::new();
    let mut last = None;
    // On a busy machine, a wait may end before a look finds it.
    for _ in 0..5 {
        let known = KnownHolders::of(&KnownRun::of_holders(400, 1, records_itself)?)?;
        ensure!(known.functions.len() == 16, "{known:?}");
        for (function, times) in &known.functions {
            ensure!(times.wrong_ms == 0.0, "{function}: {times:?}");
            if times.right_ms > 0.0 {
                named.insert(function.clone());
            }
        }
        if named.len() == known.functions.len() {
            return Ok(());
        }
        last = Some(known);
    }
    anyhow::bail!("only {named:?} of {last:?}")
}

#[test]
fn a_wait_shows_what_the_other_side_did_meanwhile() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(3)?;
    let report = run.waits(&[])?;
    let threads = report["threads"].as_array().context("threads")?;
    let rows = threads
        .iter()
        .filter_map(|thread| thread["waits"].as_array());
    let is_labelled = |row: &&Value| row["place"] == "parent_collects" && row["for"].is_string();
    let row = rows.flatten().find(is_labelled).context("no wait")?;
    let meanwhile = row["meanwhile"].to_string();
    ensure!(meanwhile.contains("worker_sleeps"), "{meanwhile}");
    ensure!(meanwhile.contains("runs"), "{meanwhile}");
    Ok(())
}

#[test]
fn the_critical_path_leads_through_the_worker_and_sums_to_the_wall_time() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(5)?;
    let path = run.waits(&["--path", "known"])?;
    let parts = path["parts"].as_array().context("parts")?;
    let sum: f64 = parts.iter().filter_map(|part| part["ms"].as_f64()).sum();
    let length = path["ms"].as_f64().context("a length")?;
    ensure!((sum - length).abs() < 0.01, "{sum} of {length}");
    // The figures `known_waits` measure how exact it is.
    let of_function = |name: &str| -> f64 {
        let found = parts.iter().filter(|part| part["function"] == name);
        found.filter_map(|part| part["ms"].as_f64()).sum()
    };
    let (sleeps, collects) = (of_function("worker_sleeps"), of_function("parent_collects"));
    ensure!(sleeps > collects, "{sleeps} and {collects} ms in {parts:?}");
    Ok(())
}

#[test]
fn a_profile_without_the_named_process_gets_a_clear_answer() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(1)?;
    let profile = run.profile()?;
    for (words, said) in [
        (
            ["--process", "nothing"],
            "the profile has no process nothing",
        ),
        (
            ["--path", "nothing"],
            "the profile has no process or marker interval nothing",
        ),
    ] {
        let mut command = Command::new(tools::profiler()?);
        let output = command.args(["waits", &profile]).args(words).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2), "{text}");
        ensure!(text.contains(said), "{text}");
    }
    Ok(())
}

/// Two processes: one has a lock on a file and reads from a pipe, the other has the pipe and waits
/// for the lock. An alarm ends the processes, because nothing else can. With -DRECORDS, they
/// record themselves.
const DEADLOCK: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#ifdef RECORDS
#include "profiler.h"
#else
static int mpprof_join(void) { return 0; }
static int mpprof_after_fork(void) { return 0; }
#endif
__attribute__((noinline)) static int reads_with_the_lock(int fd) { char c; return (int)read(fd, &c, 1) + c; }
__attribute__((noinline)) static int locks_with_the_pipe(int fd) { return flock(fd, LOCK_EX) + 1; }
int main(void) {
    int ends[2], ready[2];
    char c;
    mpprof_join();
    if (pipe(ends) || pipe(ready)) return 2;
    int lock = open("lock", O_RDWR | O_CREAT, 0600);
    if (lock < 0 || flock(lock, LOCK_EX)) return 3;
    alarm(30);
    if (fork() == 0) {
        mpprof_after_fork();
        alarm(30);
        close(lock);
        close(ends[0]);
        if (write(ready[1], "x", 1) < 1) return 4;
        return locks_with_the_pipe(open("lock", O_RDWR));
    }
    close(ends[1]);
    if (read(ready[0], &c, 1) < 1) return 5;
    return reads_with_the_lock(ends[0]);
}
"#;

#[test]
fn a_deadlock_is_reported_on_standard_error_on_the_live_page_and_in_the_profile()
-> anyhow::Result<()> {
    own_process!();
    check_deadlock(false)
}

#[test]
fn a_deadlock_of_a_process_that_records_itself_is_reported() -> anyhow::Result<()> {
    own_process!();
    check_deadlock(true)
}

fn check_deadlock(records_itself: bool) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let program = compile(&place, ("deadlock", DEADLOCK), records_itself)?;
    let mut command = Command::new(tools::profiler()?);
    command
        .args(["record", "-o", "out.json", "--live", "127.0.0.1:0", "--"])
        .arg(program);
    command.current_dir(place.path()).stdin(Stdio::null());
    command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let mut running = command.stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(running.stderr.take().context("a pipe")?).lines();
    let url =
        lines.find_map(|line| Some(line.ok()?.strip_prefix("profiler: live at ")?.to_owned()));
    let page = Page::parse(url.context("no address")?.trim())?;
    let report = lines.find(|line| {
        let is_report = |line: &String| line.contains("deadlock:");
        line.as_ref().is_ok_and(is_report)
    });
    let report = report.context("no report")??;
    ensure!(
        report.contains("(pipe)") && report.contains("(file lock)"),
        "{report}"
    );
    page.until("session.json", |session| {
        let shown = session["deadlocks"][0].as_str();
        shown.is_some_and(|shown| report.ends_with(shown))
    })?;
    // The session ends the program, and writes the profile.
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    running.wait()?;
    let profile = place.path().join("out.json");
    let profile = profile.to_str().context("a path")?;
    let info = tools::run(&["info", profile])?.out;
    ensure!(
        info.contains("deadlock: the process is waiting for"),
        "{info} {rest:?}"
    );
    Ok(())
}

#[test]
fn an_application_hears_of_a_deadlock_of_its_children_and_its_profile_has_it() -> anyhow::Result<()>
{
    own_process!();
    let place = Workplace::new()?;
    let program = compile(&place, ("deadlock", DEADLOCK), true)?;
    let session = session::start(|builder| builder.features(Features::STACK_WALK))?;
    let alerts = session.alerts(AlertRules::default(), EvidenceOptions::default())?;
    let (sender, deadlocks) = std::sync::mpsc::channel();
    alerts.on_deadlock(move |deadlock| drop(sender.send(deadlock.to_string())));
    let (sender, captures) = std::sync::mpsc::channel();
    let policy = CapturePolicy::in_directory(session.path("captures"))
        .on_capture(move |notice| drop(sender.send(notice.clone())));
    let _captures = session.capture_on(CaptureTrigger::deadlock(), policy)?;
    let mut command = Command::new(program);
    command.current_dir(place.path()).stdin(Stdio::null());
    command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
    let mut child = session.spawn("stuck worker", command)?;
    let told = deadlocks.recv_timeout(LONG)?;
    ensure!(told.contains("waiting for stuck worker ["), "{told}");
    let captured = captures.recv_timeout(LONG)?;
    ensure!(captured.cause.to_string().contains(&told), "{captured:?}");
    ensure!(captured.outcome.is_ok(), "{captured:?}");
    let path = session.path("profile.json");
    session.session()?.capture().save(&path)?;
    let path = path.to_str().context("a path")?;
    let info = tools::run(&["info", path])?.out;
    ensure!(
        info.contains("deadlock: the process is waiting for"),
        "{info}"
    );
    child.kill()?;
    child.wait()?;
    ensure!(deadlocks.try_recv().is_err(), "it is told once");
    Ok(())
}

#[test]
fn processes_that_wait_for_one_that_works_are_no_deadlock() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let mut command = Command::new(tools::profiler()?);
    // The shell waits for both, and `cat` for `sleep`, for longer than it takes to report a
    // deadlock.
    command.args([
        "record",
        "-o",
        "out.json",
        "--",
        "sh",
        "-c",
        "sleep 6 | cat; true",
    ]);
    command.current_dir(place.path()).stdin(Stdio::null());
    let recorded = place.recorded(command.env("XDG_CACHE_HOME", tools::cache()?).output()?);
    ensure!(recorded.output.status.success(), "{}", recorded.said());
    ensure!(!recorded.said().contains("deadlock"), "{}", recorded.said());
    let profile = place.path().join("out.json");
    let info = tools::run(&["info", profile.to_str().context("a path")?])?.out;
    ensure!(!info.contains("deadlock"), "{info}");
    Ok(())
}
