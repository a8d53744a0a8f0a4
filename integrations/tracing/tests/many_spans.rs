//! Very many spans: each is in the profile or counted as lost.

use std::thread;

use profiler_parent::{ByteLimit, Session};
use profiler_tracing::subscriber;
use serde::Deserialize;
use serde::de::IgnoredAny;
use test_support::own_process;
use tracing::info_span;

const PROCESSES: usize = 4;
const THREADS: u64 = 8;
const SPANS_OF_THREAD: u64 = 31_250;

/// A child: its threads record all of their spans at the same time.
fn record_spans() {
    profiler_child::init();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    let spans =
        || (0..SPANS_OF_THREAD).for_each(|number| drop(info_span!("item", number).entered()));
    thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(spans)));
}

/// A profile in the processed format, as far as this test needs it.
#[derive(Deserialize)]
struct Profile {
    shared: SharedTables,
    threads: Vec<Thread>,
}

#[derive(Deserialize)]
struct SharedTables {
    #[serde(rename = "stringArray")]
    strings: Vec<String>,
}

#[derive(Deserialize)]
struct Thread {
    markers: Markers,
}

#[derive(Deserialize)]
struct Markers {
    name: Vec<usize>,
    phase: Vec<u8>,
    #[serde(rename = "data")]
    _data: IgnoredAny,
}

/// The numbers of markers of each phase of this name.
fn phases(profile: &Profile, name: &str) -> [u64; 4] {
    let name = profile.shared.strings.iter().position(|text| text == name);
    let mut phases = [0; 4];
    for Thread { markers } in &profile.threads {
        let rows = markers.name.iter().zip(&markers.phase);
        for (_, phase) in rows.filter(|(row, _)| Some(**row) == name) {
            phases[usize::from(*phase)] += 1;
        }
    }
    phases
}

#[test]
fn a_million_spans_of_eight_threads_in_four_processes_are_all_there_or_counted() {
    own_process!();
    if own_process::role().is_some() {
        return record_spans();
    }
    let session = Session::builder()
        .memory_limit(ByteLimit::new(1 << 30))
        .start()
        .unwrap();
    let start = |number| {
        session
            .spawn(&format!("worker {number}"), own_process::child("records"))
            .unwrap()
    };
    let mut children: Vec<_> = (0..PROCESSES).map(start).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let report = session.capture().save(&path).unwrap();
    let profile = std::fs::File::open(path).unwrap();
    let profile: Profile = serde_json::from_reader(std::io::BufReader::new(profile)).unwrap();
    let [_, intervals, starts, ends] = phases(&profile, "item");
    let spans = PROCESSES as u64 * THREADS * SPANS_OF_THREAD;
    let counts = report.processes.iter().map(|process| process.counts);
    let lost: u64 = counts
        .map(|counts| counts.evicted + counts.dropped.total())
        .sum();
    // Lost entries may be others than those of spans, such as samples.
    let there = 2 * intervals + starts + ends;
    assert!(
        there <= 2 * spans && there + lost >= 2 * spans,
        "{there} of {}, {lost} are lost",
        2 * spans
    );
    assert!(starts + ends <= lost, "the others are complete");
}
