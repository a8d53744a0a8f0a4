//! Tests of the Gecko profile: everything that a process records is in it, exactly.
//!
//! This file tests the profile as a whole, and contains what the tests share. `markers` tests
//! markers and counts, `damaged` tests profiles of damaged pools.

mod damaged;
mod markers;

use crate::support::{self, RunningSession};
use profiler_core::counter::Counter;
use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::{ByteSource, PoolReader, Snapshot};
use profiler_core::marker::schema::{FieldFormat, Format, MarkerSchema, TableColumn};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_untyped_marker, category};
use profiler_core::time::{Anchor, Timestamp};
use profiler_core::{marker, text_marker};
use profiler_gecko::gecko::{ProcessPart, merge_categories};
use profiler_gecko::{
    CancelFlag, Failure, FailureLatch, ProcessRole, ProcessSummary, ProfileSpec, ProgressCell,
    Proportion,
};
use profiler_json::JsonWriter;
use serde_json::Value;
use test_support::own_process;

use self::damaged::assert_loadable;

fn spec(snapshot: &Snapshot) -> ProfileSpec {
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    ProfileSpec {
        later: Anchor::take(),
        since: None,
        categories,
    }
}

fn role() -> ProcessRole {
    ProcessRole {
        pid: ProcessId::new(4321),
        name: "Test process".to_owned(),
        is_root: true,
    }
}

fn write<S: ByteSource>(
    reader: &PoolReader<S>,
    snapshot: &Snapshot,
    spec: &ProfileSpec,
    latch: &FailureLatch,
) -> Result<(ProcessSummary, Vec<u8>), Failure> {
    let progress = ProgressCell::new("asked");
    let role = role();
    let part = ProcessPart::new(reader, snapshot, spec, &role, latch);
    let mut out = JsonWriter::new(Vec::new());
    let summary = part.write(&mut out, progress.logger())?;
    assert_eq!(progress.read().proportion, Proportion::ONE);
    Ok((summary, out.finish().unwrap()))
}

/// The profile of the running session.
fn profile() -> (ProcessSummary, Value) {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let (summary, json) = write(
        &reader,
        &snapshot,
        &spec(&snapshot),
        &FailureLatch::default(),
    )
    .unwrap();
    (summary, serde_json::from_slice(&json).unwrap())
}

#[derive(serde::Serialize)]
struct Job<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u8>,
    flow: u64,
    single: u8,
    steps: [&'a str; 2],
    rows: Vec<(&'a str, u64)>,
    stacks: &'a str,
    ratio: f64,
}

impl ProfilerMarker for Job<'_> {
    const TYPE_NAME: &'static str = "Job";
    fn schema() -> MarkerSchema {
        let columns = [
            TableColumn::new("Name", Format::UniqueString),
            TableColumn::new("Size", Format::Bytes),
        ];
        MarkerSchema::in_chart_and_table("Job")
            .key_format("title", Format::UniqueString)
            .key_format("missing", Format::Integer)
            .key_format("flow", Format::FlowId)
            .key_format("single", Format::List)
            .key_format("steps", Format::List)
            .key_format("rows", FieldFormat::table(columns))
            .key_format("stacks", Format::String)
            .key_format("ratio", Format::Percentage)
    }
}

fn at(ns: u64) -> Timestamp {
    let reader = support::pool();
    let clock = reader.header().clock;
    let ticks = clock.converter(Anchor::take()).ticks_in(ns);
    Timestamp::from_raw(clock.start.ticks.raw() + ticks)
}

static QUEUED: Counter = Counter::new("Queued", "Memory", "Bytes in the queue");

/// Rounds times to whole milliseconds, and replaces values that differ between runs.
fn steady(mut profile: Value) -> Value {
    fn round(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(round),
            Value::Object(map) => map.iter_mut().for_each(|(key, value)| match key.as_str() {
                "startTime"
                | "startTimeAsClockMonotonicNanosecondsSinceBoot"
                | "startUnixNs"
                | "hosts"
                | "extra"
                | "registerTime"
                | "unregisterTime"
                | "profilingStartTime"
                | "profilingEndTime"
                | "tid"
                | "profilingLogBegin_TSms"
                | "profilingLogEnd_TSms"
                | "platform"
                | "oscpu"
                | "abi"
                    if !value.is_null() && value != 0 && value != 1 =>
                {
                    *value = "varies".into();
                }
                _ => round(value),
            }),
            Value::Number(number) if number.is_f64() => {
                let rounded = number.as_f64().unwrap();
                if rounded > 1.0 {
                    *value = (rounded.round() as u64).into();
                }
            }
            _ => {}
        }
    }
    round(&mut profile);
    let meta = profile["meta"].as_object_mut().unwrap();
    for machine in ["CPUName", "physicalCPUs", "logicalCPUs"] {
        meta.remove(machine);
    }
    let counter = &mut profile["counters"][0]["samples"]["data"];
    counter[0][0] = "start".into();
    counter[1][0] = "capture".into();
    profile
}

#[test]
fn a_whole_process_is_written_with_everything_a_viewer_reads() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    QUEUED.add(7);
    QUEUED.add(-2);
    add_untyped_marker(
        "instant",
        &category::TEST,
        MarkerOptions::instant_at(at(5_000_000)),
    );
    add_untyped_marker(
        "interval",
        &category::IO,
        MarkerOptions::interval(at(5_000_000), at(8_000_000)),
    );
    marker!(
        "again",
        &category::IO,
        MarkerOptions::instant_at(at(9_000_000))
    );
    marker!(
        "again",
        &category::IO,
        MarkerOptions::instant_at(at(10_000_000))
    );
    text_marker!(
        "text",
        &category::OTHER,
        MarkerOptions::instant_at(at(11_000_000)),
        "a \"text\""
    );
    let rows = vec![("a", 1), ("b", 2)];
    let steps = ["one", "two"];
    let stacks = "not a stack";
    let job = Job {
        title: "text",
        missing: None,
        flow: 0xff,
        single: 1,
        steps,
        rows,
        stacks,
        ratio: 0.25,
    };
    marker!(
        "typed",
        &category::IPC,
        MarkerOptions::interval(at(12_000_000), at(13_000_000)),
        &job
    );
    let (_, profile) = profile();
    insta::assert_json_snapshot!(steady(profile));
}

#[test]
fn the_main_thread_comes_first_and_carries_the_process_name() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let (_, profile) = profile();
    let main = &profile["threads"][0];
    assert_eq!(
        (main["name"].as_str(), main["processName"].as_str()),
        (Some("GeckoMain"), Some("Test process"))
    );
    assert_eq!(
        profile["threads"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|t| t["name"] == "GeckoMain")
            .count(),
        1
    );
}

#[test]
fn a_cancelled_capture_stops_with_its_reason() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let flag = CancelFlag::new();
    flag.cancel();
    let latch = FailureLatch::new(flag);
    let result = write(&reader, &snapshot, &spec(&snapshot), &latch);
    assert_eq!(result.map(|_| ()), Err(Failure::Cancelled));
}

#[test]
fn children_are_below_the_root_and_use_its_time_line() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    add_untyped_marker(
        "late",
        &category::TEST,
        MarkerOptions::instant_at(at(30_000_000_000)),
    );
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let spec = spec(&snapshot);
    let latch = FailureLatch::default();
    let progress = ProgressCell::new("");
    let child = ProcessRole {
        pid: ProcessId::new(7),
        name: "Child".to_owned(),
        is_root: false,
    };
    let part = |role| ProcessPart {
        ended: Some(at(1)),
        ..ProcessPart::new(&reader, &snapshot, &spec, role, &latch)
    };
    let mut out = JsonWriter::new(Vec::new());
    let root = role();
    let mut shown = part(&root)
        .write_open(&mut out, progress.logger())
        .unwrap()
        .shown;
    out.key("processes");
    out.begin_array();
    shown += part(&child)
        .write(&mut out, progress.logger())
        .unwrap()
        .shown;
    out.end_array();
    part(&root).close(&mut out, None, &[], shown);
    let profile: Value = serde_json::from_slice(&out.finish().unwrap()).unwrap();
    let child = &profile["processes"][0];
    assert_eq!(child["meta"]["startTime"], profile["meta"]["startTime"]);
    assert_eq!(child["meta"]["categories"], profile["meta"]["categories"]);
    assert_eq!(
        (
            &child["threads"][0]["pid"],
            &child["threads"][0]["processName"]
        ),
        (&7.into(), &"Child".into())
    );
    assert!(
        child["threads"][0]["unregisterTime"].is_number()
            && child["meta"]["shutdownTime"].is_number()
    );
    // The two anchors are close to each other, so a time that is much later is not exact.
    assert!(profile["meta"]["profilingEndTime"].as_f64().unwrap() > 20_000.0);
    assert!(child["meta"]["profilingEndTime"].is_null());
}

#[test]
fn a_process_without_its_main_thread_gets_one_in_the_profile() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("here");
    let reader = support::pool();
    let mut snapshot = reader.snapshot().unwrap();
    snapshot.threads.retain(|thread| !thread.is_main);
    let (_, json) = write(
        &reader,
        &snapshot,
        &spec(&snapshot),
        &FailureLatch::default(),
    )
    .unwrap();
    let profile: Value = serde_json::from_slice(&json).unwrap();
    assert_loadable(&profile);
    assert_eq!(
        profile["threads"].as_array().unwrap().len(),
        snapshot.threads.len() + 1
    );
}

#[test]
fn merging_the_same_categories_again_adds_nothing() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    marker!("a", &category::IO, MarkerOptions::default());
    let snapshot = support::snapshot();
    let once = spec(&snapshot).categories;
    let mut twice = once.clone();
    merge_categories(&mut twice, &snapshot.definitions);
    assert_eq!(twice, once);
    assert_eq!(
        (once[0].name.as_str(), once[0].color.as_str()),
        ("Other", "grey")
    );
    let io = once.iter().find(|row| row.name == "I/O").unwrap();
    assert_eq!(io.subcategories, ["Other", "Read", "Write"]);
}
