//! Tests of recording and reading: recorded entries are read back exactly. One test function per
//! rule.

use crate::support::{self, RunningSession};
use profiler_core::counter::Counter;
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader, Snapshot};
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{
    MarkerOptions, MarkerSite, ProfilerMarker, add_text_marker, add_untyped_marker, category,
};
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_core::{marker, scope, text_marker, thread};
use test_support::forks::in_forked_child;
use test_support::own_process;
use test_support::patience::until;
use test_support::threads::{on_named_thread, on_thread};

/// Repeats an action until the pool has one more entry. An entry may be dropped while another
/// thread holds the lock of the chunk manager.
fn until_recorded(mut action: impl FnMut()) {
    let entries = || snapshot().1.entries();
    let before = entries();
    let is_recorded = || {
        action();
        entries() > before
    };
    assert!(
        until(is_recorded),
        "never recorded: {:?}",
        snapshot().1.counts()
    );
}

fn snapshot() -> (PoolReader<std::fs::File>, Snapshot) {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    (reader, snapshot)
}

/// Every marker as (thread name, marker name, timing is an interval, first payload value).
fn markers() -> Vec<(String, String, bool, Option<String>)> {
    let (reader, snapshot) = snapshot();
    let mut buffer = ChunkBuffer::default();
    let mut all = Vec::new();
    for thread in &snapshot.threads {
        for chunk in &thread.chunks {
            let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
                continue;
            };
            for entry in entries {
                let Entry::Marker(marker) = entry else {
                    panic!("unknown entry")
                };
                all.push((
                    thread.name.clone(),
                    name_of(&snapshot, &marker),
                    is_interval(&marker),
                    first_value(&marker),
                ));
            }
        }
    }
    all
}

fn name_of(snapshot: &Snapshot, marker: &MarkerEntry<'_>) -> String {
    let site = &snapshot.definitions.site(marker.site).unwrap().name;
    marker.name.unwrap_or(site).to_owned()
}

fn is_interval(marker: &MarkerEntry<'_>) -> bool {
    matches!(marker.timing, Timing::Interval(..))
}

fn first_value(marker: &MarkerEntry<'_>) -> Option<String> {
    PayloadReader::new(marker.payload)
        .next()
        .map(|value| match value.unwrap() {
            FieldValue::Str(text) => text.to_owned(),
            other => format!("{other:?}"),
        })
}

#[derive(serde::Serialize)]
struct Job<'a> {
    title: &'a str,
    bytes: u64,
}

impl ProfilerMarker for Job<'_> {
    const TYPE_NAME: &'static str = "Job";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Job")
            .key_label_format("title", "Title", Format::String)
            .key_label_format("bytes", "Size", Format::Bytes)
    }
}

#[test]
fn every_kind_of_marker_is_read_back() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("instant");
    marker!(
        "interval",
        &category::IO,
        MarkerOptions::interval_until_now_from(Timestamp::now())
    );
    text_marker!("text", &category::IO, MarkerOptions::default(), "hello");
    marker!(
        "typed",
        &category::IPC,
        MarkerOptions::default(),
        &Job {
            title: "big",
            bytes: 5
        }
    );
    {
        let _scope = scope!("scope");
    }
    add_untyped_marker("dynamic", &category::TEST, MarkerOptions::default());
    add_text_marker(
        "dynamic text",
        category::IO.sub(1),
        MarkerOptions::default(),
        "world",
    );
    let got: Vec<_> = markers()
        .into_iter()
        .map(|(_, name, interval, value)| (name, interval, value))
        .collect();
    let expected = [
        ("instant", false, None),
        ("interval", true, None),
        ("text", false, Some("hello")),
        ("typed", false, Some("big")),
        ("scope", true, None),
        ("dynamic", false, None),
        ("dynamic text", false, Some("world")),
    ];
    let expected: Vec<_> = expected
        .map(|(name, interval, value)| (name.to_owned(), interval, value.map(str::to_owned)))
        .into();
    assert_eq!(got, expected);
}

#[test]
fn a_payload_is_decodable_from_the_pool_alone() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!(
        "typed",
        &category::IPC,
        MarkerOptions::default(),
        &Job {
            title: "x",
            bytes: 5
        }
    );
    let (_, snapshot) = snapshot();
    let types = snapshot.definitions.marker_types();
    assert_eq!(types.len(), 1);
    assert_eq!(types[0].keys, ["title", "bytes"]);
    assert_eq!(types[0].schema, Job::schema());
}

#[test]
fn entries_of_many_threads_arrive_exactly_and_in_order() {
    own_process!();
    let _session = RunningSession::with_limit(64 << 20);
    const THREADS: usize = 4;
    const EACH: usize = 50_000;
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            std::thread::Builder::new()
                .name(format!("w{number}"))
                .spawn(move || {
                    for index in 0..EACH {
                        let title = index.to_string();
                        marker!(
                            "job",
                            &category::TEST,
                            MarkerOptions::default(),
                            &Job {
                                title: &title,
                                bytes: 1
                            }
                        );
                    }
                })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.unwrap().join().unwrap());
    let (_, snapshot) = snapshot();
    let counts = snapshot.counts();
    assert_eq!(counts.recorded(), (THREADS * EACH) as u64);
    let all = markers();
    assert_eq!(all.len() as u64, counts.delivered);
    for number in 0..THREADS {
        let name = format!("w{number}");
        let numbers: Vec<usize> = all
            .iter()
            .filter(|m| m.0 == name)
            .map(|m| m.3.as_ref().unwrap().parse().unwrap())
            .collect();
        assert!(
            numbers.windows(2).all(|pair| pair[0] < pair[1]),
            "out of order"
        );
        let thread = snapshot
            .threads
            .iter()
            .find(|thread| thread.name == name)
            .unwrap();
        assert_eq!(
            numbers.len() as u64 + thread.dropped.total() + thread.evicted,
            EACH as u64
        );
    }
}

#[test]
fn a_full_pool_keeps_the_newest_entries_and_counts_the_evicted_ones() {
    own_process!();
    let _session = RunningSession::with_limit(256 * 1024);
    let total = 100_000_u64;
    for _ in 0..total {
        marker!("flood");
    }
    let (_, snapshot) = snapshot();
    let counts = snapshot.counts();
    assert_eq!(counts.recorded(), total);
    assert!(counts.evicted > 0 && counts.delivered > 1000, "{counts:?}");
    let thread = &snapshot.threads[1];
    let last = thread.chunks.last().unwrap();
    assert_eq!(
        last.first_entry + last.entries,
        thread.committed(),
        "the newest entry is missing"
    );
    // The maintenance thread may destroy one more chunk between the read of the chunks and the read
    // of its counts. It stops soon, because nothing is recorded any more.
    let agree = || {
        let (_, snapshot) = self::snapshot();
        snapshot.threads[1].evicted == snapshot.counts().evicted
    };
    assert!(until(agree), "two independent counts differ");
}

#[test]
fn true_bytes_never_exceed_the_limit() {
    own_process!();
    let limit = 512 * 1024;
    let _session = RunningSession::with_limit(limit);
    let file = session::pool_file().unwrap();
    for round in 0..200_000 {
        marker!("flood");
        if round % 1000 == 0 {
            let held = profiler_sys::allocated_bytes(&file).unwrap();
            assert!(held <= limit, "{held} bytes held of {limit}");
        }
    }
}

#[test]
fn a_payload_larger_than_a_chunk_gets_its_own_chunk_up_to_the_maximum() {
    own_process!();
    let _session = RunningSession::with_limit(32 << 20);
    let large = "x".repeat(700_000);
    until_recorded(|| text_marker!("large", &category::TEST, MarkerOptions::default(), &large));
    let huge = "x".repeat(1_100_000);
    text_marker!("huge", &category::TEST, MarkerOptions::default(), &huge);
    let all = markers();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].3.as_ref().unwrap().len(), 700_000);
    let (_, snapshot) = snapshot();
    assert_eq!(snapshot.counts().dropped.of(DropReason::Oversize), 1);
}

#[test]
fn pausing_records_nothing_but_counts_and_shows_the_range() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("before");
    session::pause();
    marker!("during");
    session::resume();
    marker!("after");
    let names: Vec<_> = markers().into_iter().map(|marker| marker.1).collect();
    assert_eq!(names, ["before", "after"]);
    let (_, snapshot) = snapshot();
    assert_eq!(snapshot.counts().dropped.of(DropReason::Paused), 1);
    assert_eq!(snapshot.pauses.len(), 1);
    assert!(
        snapshot.pauses[0]
            .end
            .is_some_and(|end| end >= snapshot.pauses[0].start)
    );
}

#[test]
fn ensure_started_keeps_data_only_if_nothing_changed() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("kept");
    let same = session::current_params().unwrap();
    session::ensure_started(same.clone(), StartOptions::default()).unwrap();
    assert_eq!(markers().len(), 1);
    let other = SessionParams {
        interval_ns: 7_000_000,
        ..same
    };
    session::ensure_started(other, StartOptions::default()).unwrap();
    assert_eq!(markers().len(), 0);
}

#[test]
fn a_second_session_contains_no_entry_of_the_first() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("first");
    session::stop();
    assert!(!session::is_active());
    marker!("between");
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
    marker!("second");
    let names: Vec<_> = markers().into_iter().map(|marker| marker.1).collect();
    assert_eq!(names, ["second"]);
}

#[test]
fn an_entry_overtaken_by_a_stop_writes_nothing() {
    own_process!();
    static SITE: MarkerSite = MarkerSite::new("overtaken");
    let session = RunningSession::with_limit(1 << 20);
    SITE.add(&category::TEST, MarkerOptions::default());
    let pool = session::pool_file().unwrap();
    drop(session);
    let held = profiler_sys::allocated_bytes(&pool).unwrap();
    // A thread that read the gate just before the stop does the same.
    SITE.add(&category::TEST, MarkerOptions::default());
    assert_eq!(
        profiler_sys::allocated_bytes(&pool).unwrap(),
        held,
        "memory was written after the stop"
    );
}

#[test]
fn filters_select_threads_by_name() {
    own_process!();
    let params = SessionParams {
        filters: vec!["WORK".to_owned()],
        ..SessionParams::default()
    };
    let _session = RunningSession::start(params);
    let run = |name: &'static str| {
        let body = || marker!("here");
        on_named_thread(name, body);
    };
    run("worker");
    run("other");
    let threads: Vec<_> = markers().into_iter().map(|marker| marker.0).collect();
    assert_eq!(threads, ["worker"]);
}

#[test]
fn a_thread_can_be_named_and_renamed() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let body = || {
        thread::register("first name");
        marker!("a");
        thread::register("second name");
    };
    on_thread(body);
    assert_eq!(markers()[0].0, "second name");
}

static ITEMS: Counter = Counter::new("items", "Other", "items handled");

#[test]
fn counters_are_read_with_the_pool() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    ITEMS.add(5);
    ITEMS.add(-2);
    let (_, snapshot) = snapshot();
    assert_eq!(snapshot.counters.len(), 1);
    assert_eq!(
        (snapshot.counters[0].value, snapshot.counters[0].number),
        (3, 2)
    );
    assert_eq!(snapshot.counters[0].definition.name, "items");
}

#[derive(serde::Serialize)]
struct Tricky<'a> {
    value: &'a Switch,
}

struct Switch(std::cell::Cell<u8>);

impl serde::Serialize for Switch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        match self.0.get() {
            0 => serializer.serialize_u8(1),
            1 => Err(S::Error::custom("no")),
            2 => panic!("boom"),
            _ => {
                marker!("inside");
                serializer.serialize_u8(2)
            }
        }
    }
}

impl ProfilerMarker for Tricky<'_> {
    const TYPE_NAME: &'static str = "Tricky";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Tricky")
    }
}

#[test]
fn payloads_that_fail_panic_or_record_are_counted_and_do_no_harm() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let switch = Switch(std::cell::Cell::new(0));
    let add = |mode: u8| {
        switch.0.set(mode);
        marker!(
            "tricky",
            &category::TEST,
            MarkerOptions::default(),
            &Tricky { value: &switch }
        );
    };
    add(0);
    add(1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| add(2))).is_err());
    add(3);
    marker!("after");
    let (_, snapshot) = snapshot();
    let counts = snapshot.counts();
    assert_eq!(counts.dropped.of(DropReason::Unencodable), 2);
    assert_eq!(counts.dropped.of(DropReason::Reentrant), 1);
    assert_eq!((counts.delivered, counts.unfinished), (3, 0));
}

#[test]
fn the_row_of_an_ended_thread_is_freed_when_its_entries_are_evicted() {
    own_process!();
    let _session = RunningSession::with_limit(512 * 1024);
    for _ in 0..2000 {
        let body = || marker!("short");
        on_thread(body);
    }
    assert!(
        until(|| snapshot().1.threads.len() < 400),
        "{} rows",
        snapshot().1.threads.len()
    );
    assert_eq!(snapshot().1.counts().recorded(), 2000);
}

#[test]
fn a_forked_child_writes_nothing_and_does_not_crash() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("parent");
    let in_child = || {
        marker!("child");
        i32::from(session::is_active())
    };
    // SAFETY: the child only tries to record, which a forked child may do.
    #[allow(unsafe_code)]
    let status = unsafe { in_forked_child(in_child) };
    assert_eq!(status, 0);
    assert_eq!(markers().len(), 1);
    marker!("still");
    assert_eq!(markers().len(), 2);
}

#[test]
fn chunks_older_than_the_window_are_destroyed() {
    own_process!();
    let params = SessionParams {
        window_ns: 100_000_000,
        ..SessionParams::default()
    };
    let _session = RunningSession::start(params);
    let body = || marker!("old");
    on_thread(body);
    // Not evicted yet, or already evicted if a read takes longer than the window on this machine.
    assert_eq!(snapshot().1.counts().recorded(), 1);
    assert!(
        until(|| snapshot().1.counts().evicted == 1),
        "{:?}",
        snapshot().1.counts()
    );
    assert_eq!(snapshot().1.counts().delivered, 0);
    assert_eq!(markers().len(), 0);
}
