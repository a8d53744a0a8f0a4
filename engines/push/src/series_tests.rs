//! Tests of series of captures: every entry is in one profile of a series, or counted as missed.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use profiler_core::counter::Counter;
use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use profiler_core::session::Features;
use serde_json::Value;
use test_support::own_process;
use test_support::patience::until;

use super::{PushDestination, PushError, PushOptions, Pusher};
use profiler_parent::Session;
use profiler_parent::internal::pushers::CaptureSeries;
use profiler_parent::{CaptureError, CaptureReport};

type Series = Arc<Mutex<CaptureSeries>>;

fn mark(name: &str) {
    add_untyped_marker(name, &category::TEST, MarkerOptions::default());
}

fn capture(session: &Session, series: &Series, path: &Path) -> Result<CaptureReport, CaptureError> {
    session.capture().in_series(series).save(path)
}

/// The names of the markers in a profile that begin with `prefix`, in their order.
fn names(path: &Path, prefix: &str) -> Vec<String> {
    let text = std::fs::read(path).unwrap();
    let profile: Value = serde_json::from_slice(&text).unwrap();
    let strings = profile["shared"]["stringArray"].as_array().unwrap();
    let threads = profile["threads"].as_array().unwrap().iter();
    let all = threads.flat_map(|thread| thread["markers"]["name"].as_array().unwrap());
    let named = all.map(|index| strings[index.as_u64().unwrap() as usize].as_str().unwrap());
    named
        .filter(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_entry_is_in_one_profile_of_a_series() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let series = Series::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let mut seen = Vec::new();
    let mut recorded = Vec::new();
    for round in 0..4 {
        for number in 0..round * 700 {
            let name = format!("mark {round} {number}");
            mark(&name);
            recorded.push(name);
        }
        let other = std::thread::Builder::new().spawn(move || mark(&format!("mark other {round}")));
        other.unwrap().join().unwrap();
        capture(&session, &series, &path).unwrap();
        let (others, own): (Vec<_>, Vec<_>) = names(&path, "mark ")
            .into_iter()
            .partition(|name| name.starts_with("mark other"));
        assert_eq!(others, [format!("mark other {round}")]);
        seen.extend(own);
    }
    assert_eq!(seen, recorded);
    assert_eq!(series.lock().unwrap().missed(), 0);
}

#[test]
fn the_entries_of_a_capture_that_fails_are_in_the_next_one() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let series = Series::default();
    let directory = tempfile::tempdir().unwrap();
    mark("mark 1");
    let nowhere = directory.path().join("missing").join("profile.json");
    assert!(capture(&session, &series, &nowhere).is_err());
    mark("mark 2");
    let path = directory.path().join("profile.json");
    capture(&session, &series, &path).unwrap();
    assert_eq!(names(&path, "mark "), ["mark 1", "mark 2"]);
}

#[test]
fn an_interval_is_in_the_profile_of_its_end_only() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let series = Series::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let scope = profiler_core::scope!("mark long", &category::TEST);
    mark("mark 1");
    capture(&session, &series, &path).unwrap();
    assert_eq!(names(&path, "mark "), ["mark 1"]);
    drop(scope);
    capture(&session, &series, &path).unwrap();
    assert_eq!(names(&path, "mark "), ["mark long"]);
    capture(&session, &series, &path).unwrap();
    assert!(names(&path, "mark ").is_empty());
}

#[test]
fn entries_that_are_evicted_between_two_profiles_are_counted() {
    own_process!();
    let limit = ByteLimit::new(4 << 20);
    let session = Session::builder().memory_limit(limit);
    let session = session.features(Features::NONE).start().unwrap();
    let series = Series::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let mut seen = 0;
    let (mut recorded, mut dropped, mut newly_missed) = (0, 0, 0);
    mark("mark");
    capture(&session, &series, &path).unwrap();
    let before = names(&path, "mark").len() as u64;
    for _ in 0..3 {
        for _ in 0..300_000 {
            mark("mark");
            recorded += 1;
        }
        let report = capture(&session, &series, &path).unwrap();
        seen += names(&path, "mark").len() as u64;
        dropped = report.processes[0].counts.dropped.total();
        newly_missed += report.processes[0].series.as_ref().unwrap().newly_missed;
    }
    let series = series.lock().unwrap();
    assert!(series.missed() > 0 && seen > 0, "{seen} of {recorded}");
    assert_eq!(series.written(), seen + before);
    assert_eq!(
        newly_missed,
        series.missed(),
        "each is counted in one profile"
    );
    assert_eq!(seen + series.missed() + dropped, recorded);
}

#[test]
fn the_changes_of_a_counter_are_in_one_profile_of_a_series_each() {
    own_process!();
    static SENT: Counter = Counter::new("mark sent", "Bandwidth", "");
    let session = Session::builder().features(Features::NONE);
    let session = session.start().unwrap();
    let series = Series::default();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    for amount in [5, 3, 0, 7] {
        SENT.add(amount);
        mark("mark");
        capture(&session, &series, &path).unwrap();
        let text = std::fs::read(&path).unwrap();
        let profile: Value = serde_json::from_slice(&text).unwrap();
        let mut all = profile["counters"].as_array().unwrap().iter();
        let counter = all.find(|counter| counter["name"] == "mark sent").unwrap();
        let changes = counter["samples"]["count"].as_array().unwrap();
        let sum: i64 = changes.iter().map(|change| change.as_i64().unwrap()).sum();
        assert_eq!(sum, amount);
    }
}

/// A pusher to an address at which nothing listens.
fn push(session: &Session, address: &str, spool: &Path) -> Result<Pusher, PushError> {
    let to = PushDestination::parse(address).unwrap();
    Pusher::start(session, &PushOptions::to(to).spool(spool))
}

#[test]
fn a_pusher_that_follows_another_one_sends_what_is_new_and_what_waits() {
    own_process!();
    let session = Session::builder().features(Features::NONE).start().unwrap();
    let spool = tempfile::tempdir().unwrap();
    let [first, second] = ["otlp+http://127.0.0.1:1", "otlp+http://127.0.0.1:2"];
    let captured = |address: &str, marks: u64| {
        for number in 0..marks {
            mark("mark");
            if number % 100 == 99 {
                // A thread that records faster than chunks are made ready drops entries.
                assert!(until(|| is_maintenance_idle() == Some(true)));
            }
        }
        let pusher = push(&session, address, spool.path()).unwrap();
        let waiting = pusher.report().destinations[0].waiting_batches;
        let refused = push(&session, address, spool.path()).unwrap_err();
        assert!(refused.to_string().contains("another pusher"), "{refused}");
        (pusher.finish(Duration::ZERO).captured_entries, waiting)
    };
    let (all, none) = captured(first, 5000);
    assert_eq!((all >= 5000, none), (true, 0));
    let (seven, waiting) = captured(first, 7);
    assert_eq!(waiting, 1, "the batch of the first pusher");
    let (more, waiting) = captured(first, 107);
    assert_eq!((more - seven, waiting), (100, 2));
    let (all, _) = captured(second, 0);
    assert!(all >= 5114, "another destination gets everything");
}

#[test]
fn a_forked_child_has_no_pusher() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let spool = tempfile::tempdir().unwrap();
    let mut pusher = push(&session, "otlp+http://127.0.0.1:1", spool.path()).unwrap();
    pusher.maker = ProcessId::new(0);
    assert!(pusher.report().destinations.is_empty());
    // Without a wait for the threads of the parent.
    let report = pusher.finish(Duration::MAX);
    assert!(report.destinations.is_empty());
    assert_eq!(std::fs::read_dir(spool.path()).unwrap().count(), 1);
    assert!(push(&session, "otlp+http://127.0.0.1:1", spool.path()).is_err());
}

#[test]
fn a_batch_has_few_values_of_each_second_and_the_same_last_value() {
    own_process!();
    let features = Features::CPU.with(Features::PROCESS_CPU);
    let builder = Session::builder().features(features);
    let session = builder.interval(Duration::from_millis(1)).start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [whole, batch] = ["whole.json", "batch.json"].map(|name| directory.path().join(name));
    let counter = |path: &Path| -> Value {
        let text = std::fs::read(path).unwrap();
        let profile: Value = serde_json::from_slice(&text).unwrap();
        let overhead = profile["profilerOverhead"].as_array().unwrap().len();
        let counters = profile["counters"].as_array().unwrap();
        let cpu = counters
            .iter()
            .find(|counter| counter["name"] == "processCPU");
        let mut counter = cpu.cloned().unwrap_or_default();
        counter["overhead"] = overhead.into();
        counter
    };
    let column = |counter: &Value, name: &str| -> Vec<f64> {
        let values = counter["samples"][name].as_array().into_iter().flatten();
        values.map(|value| value.as_f64().unwrap()).collect()
    };
    assert!(until(|| {
        session.capture().save(&whole).unwrap();
        column(&counter(&whole), "count").len() > 500
    }));
    capture(&session, &Series::default(), &batch).unwrap();
    let (whole, batch) = (counter(&whole), counter(&batch));
    let times = column(&batch, "timeDeltas");
    let length_ms: f64 = times.iter().skip(1).sum();
    let most = 2.0 * (length_ms / 1000.0 + 2.0) + 3.0;
    assert!(times.len() as f64 <= most, "{batch}");
    // The batch was captured later.
    let sum = |counter: &Value| column(counter, "count").iter().sum::<f64>();
    assert!(sum(&batch) >= sum(&whole) && sum(&whole) > 0.0);
    assert_eq!(batch["unit"], whole["display"]["unit"]);
    assert_eq!(
        (&batch["overhead"], &whole["overhead"]),
        (&0.into(), &1.into())
    );
}
