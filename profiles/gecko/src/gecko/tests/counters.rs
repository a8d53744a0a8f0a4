//! Counters and the profiler's overhead in the profile.

use serde_json::{Value, json};

use super::record::{self, Session, on_thread, overhead};
use super::rows;
use super::show::{profile_since, thread_names};
use profiler_core::counter::Counter;
use profiler_core::ids::CounterIndex;
use profiler_core::internal::entry::periodic::{CounterValue, OverheadEntry};
use profiler_core::session;

static MEMORY: Counter = Counter::new("Cache", "Memory", "");
static RATE: Counter = Counter::new("Jobs", "Bandwidth", "");
static NEVER: Counter = Counter::new("Quiet", "Bandwidth", "");
/// As the tracks of groups.
static IDLE_GROUP: Counter = Counter::new("plugin idle", "Group", "");
static BUSY_GROUP: Counter = Counter::new("plugin busy", "Group", "");
static LEVEL: Counter = Counter::new("Queue length", "Jobs", "");
static MORE_MEMORY: Counter = Counter::new("Buffers", "Memory", "");

/// The cells of [`MEMORY`], [`RATE`] and [`NEVER`].
fn cells() -> [CounterIndex; 3] {
    [&MEMORY, &RATE, &NEVER]
        .iter()
        .for_each(|counter| counter.add(5));
    let reader =
        profiler_core::internal::reader::PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    ["Cache", "Jobs", "Quiet"].map(|name| {
        let known = snapshot
            .counters
            .iter()
            .find(|counter| counter.definition.name == name);
        known.unwrap().definition.cell
    })
}

/// Time, count and number of a row.
type Row = (f64, i64, u64);

/// The rows up to a time in milliseconds, and the sum of all counts. The capture adds the later
/// rows. Their number depends on the time of the capture, which divides a long change into several
/// rows.
fn counter_rows(profile: &Value, name: &str, until_ms: f64) -> (Vec<Row>, i64) {
    let counters = profile["counters"].as_array().unwrap();
    let counter = counters
        .iter()
        .find(|counter| counter["name"] == name)
        .unwrap();
    let row = |row: &Value| {
        (
            row[0].as_f64().unwrap(),
            row[1].as_i64().unwrap(),
            row[2].as_u64().unwrap(),
        )
    };
    let mut rows: Vec<_> = rows(&counter["samples"]).iter().map(row).collect();
    let sum = rows.iter().map(|row| row.1).sum();
    rows.retain(|row| row.0 <= until_ms);
    (rows, sum)
}

#[test]
fn a_counter_has_a_row_per_change_and_ends_with_its_total() {
    let session = Session::start();
    let [memory, rate, _] = cells();
    let value = |cell, value, number| CounterValue {
        cell,
        value,
        number,
    };
    on_thread("sampling", || {
        record::counters(session.ms(99), &[value(rate, 0, 0)]);
        record::counters(session.ms(100), &[value(memory, 3, 1), value(rate, 10, 2)]);
        record::counters(
            session.ms(101),
            &[value(memory, 1, 2), value(CounterIndex::new(900), 1, 1)],
        );
        let locking_ns = 1_500;
        overhead(&OverheadEntry {
            at: session.ms(101),
            locking_ns,
            counters_ns: 2_000,
            threads_ns: 30,
            total_ns: 9_999,
            handlers_ns: 4_000,
            interval_ns: 8_000_000,
        });
        record::counters(session.ms(102), &[value(rate, 14, 3)]);
    });
    let (profile, counts) = profile_since(None);
    let (memory, memory_sum) = counter_rows(&profile, "Cache", 101.0);
    assert_eq!(
        (&memory[1..], memory_sum),
        (&[(100.0, 3, 1), (101.0, -2, 1)][..], 5)
    );
    assert!(
        memory[0].0 < 100.0 && (memory[0].1, memory[0].2) == (0, 0),
        "{memory:?}"
    );
    let (rate, rate_sum) = counter_rows(&profile, "Jobs", 102.0);
    assert_eq!(
        (&rate[1..], rate_sum),
        (&[(99.0, 0, 0), (100.0, 10, 2), (102.0, 4, 1)][..], 5)
    );
    assert_eq!(counter_rows(&profile, "Quiet", f64::MAX).1, 5);
    assert_eq!(
        rows(&profile["profilerOverhead"]["samples"]),
        [json!([101_000, 1.5, 0, 2, 0.03, 4, 8_000])]
    );
    assert_eq!((counts.delivered, counts.recorded()), (5, 5));
    assert_eq!(thread_names(&profile), ["GeckoMain"]);
}

#[test]
fn a_counter_whose_first_changes_are_gone_begins_with_the_remaining_ones() {
    let session = Session::start();
    let [memory, rate, _] = cells();
    let value = |cell, value, number| CounterValue {
        cell,
        value,
        number,
    };
    on_thread("sampling", || {
        record::counters(session.ms(1), &[value(memory, 3, 1), value(rate, 10, 2)]);
        record::counters(session.ms(5), &[value(memory, 4, 2), value(rate, 30, 5)]);
        record::counters(session.ms(6), &[value(memory, 9, 3), value(rate, 31, 6)]);
    });
    let (profile, counts) = profile_since(Some(session.ms(4)));
    assert_eq!(
        counter_rows(&profile, "Cache", 6.0).0,
        [(5.0, 0, 0), (5.0, 4, 0), (6.0, 5, 1)]
    );
    let (rate, _) = counter_rows(&profile, "Jobs", 6.0);
    assert_eq!(rate, [(5.0, 0, 0), (6.0, 1, 1)]);
    assert_eq!((counts.delivered, counts.outside, counts.lost()), (2, 1, 0));
}

#[test]
fn the_time_of_a_group_is_left_out_if_it_is_always_zero() {
    let _session = Session::start();
    IDLE_GROUP.register();
    BUSY_GROUP.add(2_000_000);
    NEVER.register();
    let (profile, _) = profile_since(None);
    let counters = profile["counters"].as_array().unwrap();
    let names: Vec<_> = counters.iter().map(|counter| &counter["name"]).collect();
    assert!(!names.contains(&&json!("plugin idle")), "{names:?}");
    for shown in ["plugin busy", "Quiet"] {
        assert!(names.contains(&&json!(shown)), "{shown}: {names:?}");
    }
}

#[test]
fn a_level_that_viewers_would_draw_as_a_rate_is_markers_with_a_graph() {
    let session = Session::start();
    [&MEMORY, &MORE_MEMORY, &LEVEL]
        .iter()
        .for_each(|counter| counter.add(5));
    let reader =
        profiler_core::internal::reader::PoolReader::open(session::pool_file().unwrap()).unwrap();
    let known = reader.snapshot().unwrap().counters;
    let of_level = |counter: &&profiler_core::internal::reader::CounterInfo| {
        counter.definition.name == "Queue length"
    };
    let cell = known.iter().find(of_level).unwrap().definition.cell;
    on_thread("sampling", || {
        for (ms, value) in [(100, 3), (101, 3), (102, 1)] {
            let value = CounterValue {
                cell,
                value,
                number: 1,
            };
            record::counters(session.ms(ms), &[value]);
        }
    });
    let (profile, _) = profile_since(None);
    let counters = profile["counters"].as_array().unwrap();
    let memory = counters
        .iter()
        .filter(|counter| counter["category"] == "Memory");
    let names: Vec<_> = memory.map(|counter| &counter["name"]).collect();
    assert_eq!(names, ["Cache"], "two of them would have one label");
    let is_queue = |counter: &&Value| counter["name"] == "Queue length";
    assert!(!counters.iter().any(|counter| is_queue(&counter)));
    let main = super::show::thread(&profile, "GeckoMain");
    let markers = rows(&main["markers"]);
    let levels = |kind: &str| -> Vec<_> {
        let rows = markers.iter().filter(|row| row[5]["type"] == kind);
        let name = |row: &Value| main["stringTable"][row[0].as_u64().unwrap() as usize].clone();
        rows.map(|row| (name(row), row[2].clone(), row[5]["value"].clone()))
            .collect()
    };
    let queue = levels("Level");
    let values: Vec<_> = queue.iter().map(|(_, _, value)| value.clone()).collect();
    assert_eq!(values, [0, 3, 1, 5], "one marker per value");
    assert_eq!(
        (&queue[1].0, &queue[1].1),
        (&json!("Queue length"), &json!(102))
    );
    assert_eq!(levels("MemoryLevel").last().unwrap().0, "Buffers");
    let schemas = profile["meta"]["markerSchema"].as_array().unwrap();
    let level = schemas
        .iter()
        .find(|schema| schema["name"] == "Level")
        .unwrap();
    assert_eq!(level["graphs"][0]["key"], "value");
}
