//! Markers in the Gecko profile: each one is in the table of its thread, or counted as lost.

use profiler_core::ids::ThreadId;
use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use profiler_core::session::DropReason;
use profiler_core::{marker, text_marker, thread};
use profiler_gecko::{FailureLatch, ProfileSpec};
use serde_json::Value;
use test_support::own_process;

use super::{at, profile, spec, write};
use crate::support::{self, RunningSession};

fn thread_of<'v>(profile: &'v Value, name: &str) -> &'v Value {
    let threads = profile["threads"].as_array().unwrap();
    threads
        .iter()
        .find(|thread| thread["name"] == name)
        .unwrap_or_else(|| panic!("no thread {name}"))
}

/// The names of a thread's markers, in order.
fn names(thread: &Value) -> Vec<&str> {
    let rows = thread["markers"]["data"].as_array().unwrap();
    let text = |row: &Value| {
        thread["stringTable"][row[0].as_u64().unwrap() as usize]
            .as_str()
            .unwrap()
    };
    rows.iter().map(text).collect()
}

#[test]
fn every_marker_of_every_thread_is_in_the_profile_once() {
    own_process!();
    const EACH: u64 = 5_000;
    let _session = RunningSession::with_limit(16 << 20);
    let workers = ["a", "b", "c"].map(|name| {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                (0..EACH).for_each(|number| match number % 3 {
                    0 => marker!("plain"),
                    1 => text_marker!("text", &category::OTHER, MarkerOptions::default(), "ü"),
                    _ => add_untyped_marker(
                        &number.to_string(),
                        &category::TEST,
                        MarkerOptions::default(),
                    ),
                });
            })
    });
    workers
        .into_iter()
        .for_each(|worker| worker.unwrap().join().unwrap());
    let (summary, profile) = profile();
    let mut written = 0;
    for name in ["a", "b", "c"] {
        let thread = thread_of(&profile, name);
        let mut expected = (0..EACH).map(|number| match number % 3 {
            0 => "plain".to_owned(),
            1 => "text".to_owned(),
            _ => number.to_string(),
        });
        // On a busy machine, entries may be dropped and counted. The others are in order.
        for found in names(thread)
            .into_iter()
            .filter(|name| *name != "Entries lost")
        {
            assert!(
                expected.any(|next| next == found),
                "{found} is in the profile twice, or out of order"
            );
            written += 1;
        }
        assert!(thread["unregisterTime"].is_number());
    }
    assert_eq!(summary.counts.recorded(), 3 * EACH);
    assert_eq!(summary.counts.delivered, written);
    assert_eq!(summary.counts.evicted, 0);
    assert_eq!(
        profile["profilingLog"]["4321"]["total"]["delivered"],
        written
    );
    assert!(
        summary.shown.first_ns == 0 && summary.shown.last_ns > 0,
        "{:?}",
        summary.shown
    );
}

#[test]
fn markers_for_another_thread_are_in_its_table_and_in_the_recording_threads_counts() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let (tid_sender, tid_receiver) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::Builder::new()
        .name("other".to_owned())
        .spawn(move || {
            marker!("own");
            let id = std::fs::read_link("/proc/thread-self").unwrap();
            tid_sender
                .send(
                    id.file_name()
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .parse::<u64>()
                        .unwrap(),
                )
                .unwrap();
            let _ = ended.recv();
        });
    let tid = ThreadId::new(tid_receiver.recv().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::register("giver");
            add_untyped_marker("kept", &category::TEST, MarkerOptions::default());
            add_untyped_marker(
                "given",
                &category::TEST,
                MarkerOptions::default().on_thread(tid),
            );
            let unknown = MarkerOptions::default().on_thread(ThreadId::new(1 << 40));
            add_untyped_marker("for an unknown thread", &category::TEST, unknown);
        });
    });
    let (summary, profile) = profile();
    assert_eq!(names(thread_of(&profile, "other")), ["own", "given"]);
    assert_eq!(
        names(thread_of(&profile, "giver")),
        ["kept", "for an unknown thread"]
    );
    assert_eq!(summary.counts.recorded(), summary.counts.delivered);
    let log = profile["profilingLog"]["4321"]["threads"]
        .as_array()
        .unwrap();
    let giver = log.iter().find(|thread| thread["name"] == "giver").unwrap();
    assert_eq!(
        (&giver["delivered"], &giver["evicted"]),
        (&3.into(), &0.into())
    );
    drop(end);
    other.unwrap().join().unwrap();
}

#[test]
fn lost_entries_are_in_the_log_and_in_a_marker() {
    own_process!();
    const MANY: u64 = 200_000;
    let _session = RunningSession::with_limit(1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread::register("busy");
            (0..MANY).for_each(|_| marker!("tick"));
        });
    });
    let (summary, profile) = profile();
    let counts = summary.counts;
    assert_eq!(counts.recorded(), MANY);
    assert!(counts.evicted + counts.dropped.total() > 0);
    let busy = thread_of(&profile, "busy");
    let ticks = names(busy).iter().filter(|name| **name == "tick").count() as u64;
    assert_eq!(ticks, counts.delivered);
    let lost = busy["markers"]["data"].as_array().unwrap().last().unwrap();
    assert_eq!(lost[5]["type"], "ProfilerLosses");
    assert_eq!(lost[5]["evicted"], counts.evicted);
    assert_eq!(lost[5]["dropped"], counts.dropped.total());
    let full = counts.dropped.of(DropReason::Full);
    assert_eq!(
        lost[5]
            .get("full")
            .map_or(0, |count| count.as_u64().unwrap()),
        full
    );
    let log = &profile["profilingLog"]["4321"]["threads"];
    let log = log
        .as_array()
        .unwrap()
        .iter()
        .find(|thread| thread["name"] == "busy")
        .unwrap();
    assert_eq!(log["recorded"], MANY);
}

#[test]
fn entries_older_than_the_window_are_left_out_and_not_counted_as_lost() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    add_untyped_marker("old", &category::TEST, MarkerOptions::instant_at(at(1_000)));
    add_untyped_marker(
        "new",
        &category::TEST,
        MarkerOptions::instant_at(at(50_000_000)),
    );
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let spec = ProfileSpec {
        since: Some(at(40_000_000)),
        ..spec(&snapshot)
    };
    let (summary, json) = write(&reader, &snapshot, &spec, &FailureLatch::default()).unwrap();
    let text = String::from_utf8(json).unwrap();
    assert!(text.contains("\"new\"") && !text.contains("\"old\""));
    let counts = summary.counts;
    assert_eq!((counts.delivered, counts.outside, counts.lost()), (1, 1, 0));
}
