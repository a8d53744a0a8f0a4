//! Commands of a server that forks workers: a forked process begins to record anew.

#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::thread::Builder;

use anyhow::{Context, ensure};
use integration_tests::marks::record_paced;
use integration_tests::patience::{LONG, until};
use profiler_core::marker;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::begin::line_of;
use crate::end::quit;
use crate::forks::{fork, wait_for};
use crate::{Words, number};

/// Markers that the forked process of a scenario records.
const MARKERS: u64 = 100;

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "workers" => workers(words),
        "in-fork" => in_fork(words),
        "after-fork" => Ok(format!("ok {}", begin_anew())),
        "fork-within-entry" => fork_within_entry(),
        _ => return None,
    })
}

/// Begins anew, and returns the status.
fn begin_anew() -> String {
    // SAFETY: the C library's allocator works in a forked process. No thread of the helper changes
    // the environment or loads a library, and none is starting the profiler.
    line_of(unsafe { profiler_child::after_fork_within(LONG) })
}

/// `workers COUNT MARKERS`: forks COUNT processes at once. Each begins anew, records MARKERS
/// markers as thread 1000, and exits. Answers how many of them recorded.
fn workers(words: Words<'_>) -> anyhow::Result<String> {
    let (count, markers) = (number(words, 0)?, number(words, 1)?);
    let worker = || {
        let status = begin_anew();
        record_paced(1000, 0..markers);
        std::process::exit(i32::from(status != "Recording"));
    };
    let pids: Vec<libc::pid_t> = (0..count)
        .map(|_| fork(worker))
        .collect::<anyhow::Result<_>>()?;
    let good = pids.into_iter().filter(|pid| wait_for(*pid) == 0).count();
    Ok(format!("ok {good}"))
}

/// What a forked process does; returns what the server answers.
type Scenario = fn() -> String;

const SCENARIOS: &[(&str, Scenario)] = &[
    ("silent", silent),
    ("init", || line_of(profiler_child::init_within(LONG))),
    ("after-fork", begin_anew_and_record),
    ("twice", twice),
    ("with-thread", with_thread),
    ("worker", worker_of_worker),
    ("shutdown", shut_down),
];

/// `in-fork SCENARIO`: forks a process that acts as one of [`SCENARIOS`] and exits. Answers what it
/// said.
fn in_fork(words: Words<'_>) -> anyhow::Result<String> {
    let name = words.first().context("which scenario?")?;
    let scenario = SCENARIOS.iter().find(|(known, _)| known == name);
    let (_, scenario) = scenario.context("an unknown scenario")?;
    Ok(format!("ok {}", said_in_fork(*scenario)?))
}

/// Runs a scenario in a forked process that then exits. Returns what it said.
fn said_in_fork(scenario: Scenario) -> anyhow::Result<String> {
    let (mut reader, mut writer) = std::io::pipe()?;
    let pid = fork(|| {
        let said = scenario();
        let _ = writer.write_all(said.as_bytes());
        std::process::exit(0);
    })?;
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said)?;
    let status = wait_for(pid);
    ensure!(status == 0, "it ended with status {status}: {said}");
    Ok(said)
}

/// Records without beginning anew, also on a thread of its own.
fn silent() -> String {
    let record = || (0..50).for_each(|sequence| integration_tests::marks::record(2000, sequence));
    record();
    let thread = Builder::new().spawn(record);
    let has_ended = thread.is_ok_and(|thread| thread.join().is_ok());
    format!("{has_ended} {}", profiler_core::session::is_active())
}

fn begin_anew_and_record() -> String {
    let status = begin_anew();
    record_paced(1000, 0..MARKERS);
    status
}

fn twice() -> String {
    let first = begin_anew_and_record();
    format!("{first}, {}", begin_anew())
}

/// Begins anew while the process has another thread, and again after that thread has ended.
fn with_thread() -> String {
    let (keeps_it, waits) = std::sync::mpsc::channel::<()>();
    let body = move || {
        let _ = waits.recv();
    };
    let Ok(thread) = Builder::new().spawn(body) else {
        return "no thread".to_owned();
    };
    let first = begin_anew();
    drop(keeps_it);
    let _ = thread.join();
    // The system may list the thread for a moment after it has ended.
    let mut second = String::new();
    until(|| {
        second = begin_anew();
        second != first
    });
    record_paced(1000, 0..MARKERS);
    format!("{first}, {second}")
}

/// Begins anew, and forks a process that does the same.
fn worker_of_worker() -> String {
    let first = begin_anew_and_record();
    let second = said_in_fork(begin_anew_and_record).unwrap_or_else(|error| format!("{error:#}"));
    format!("{first}, {second}")
}

/// Begins anew, ends the profiler, and records on.
fn shut_down() -> String {
    let status = begin_anew_and_record();
    profiler_child::shutdown();
    record_paced(1000, 0..MARKERS);
    format!("{status}, {}", profiler_core::session::is_active())
}

/// A payload whose serialisation forks, if there is a pipe. The forked process tries to begin anew,
/// and writes the status to the pipe.
struct Forking<'a>(Option<&'a std::io::PipeWriter>);

impl ProfilerMarker for Forking<'_> {
    const TYPE_NAME: &'static str = "Forking";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
    }
}

impl Serialize for Forking<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(mut writer) = self.0 {
            let pid = fork(|| {
                // It must not return to the entry, whose memory it does not have.
                let _ = writer.write_all(begin_anew().as_bytes());
                quit(0);
            });
            let _ = pid.map(wait_for);
        }
        serializer.serialize_struct(Self::TYPE_NAME, 0)?.end()
    }
}

/// `fork-within-entry`: forks in the serialisation of a payload. Answers the forked process's
/// status.
fn fork_within_entry() -> anyhow::Result<String> {
    let (mut reader, writer) = std::io::pipe()?;
    let record = |pipe| {
        let options = MarkerOptions::default();
        marker!("forks", &category::OTHER, options, &Forking(pipe));
    };
    record(None); // makes the type known, outside of an entry
    record(Some(&writer));
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said)?;
    Ok(format!("ok {said}"))
}
