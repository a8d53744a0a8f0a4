//! A written profile as tests look at it.

use serde_json::Value;

use crate::gecko::{ProcessPart, merge_categories};
use crate::{FailureLatch, ProcessRole, ProfileSpec, ProgressCell};
use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session;
use profiler_core::session::EntryCounts;
use profiler_core::time::{Anchor, Timestamp};
use profiler_json::JsonWriter;

/// The profile of the running session, of what happened since a time, and the counts.
pub(super) fn profile_since(since: Option<Timestamp>) -> (Value, EntryCounts) {
    let reader = PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    let spec = ProfileSpec {
        later: Anchor::take(),
        since,
        categories,
    };
    let role = ProcessRole {
        pid: ProcessId::new(4321),
        name: "Test".to_owned(),
        is_root: true,
    };
    let latch = FailureLatch::default();
    let progress = ProgressCell::new("");
    let part = ProcessPart::new(&reader, &snapshot, &spec, &role, &latch);
    let mut out = JsonWriter::new(Vec::new());
    let counts = part.write(&mut out, progress.logger()).unwrap().counts;
    (
        serde_json::from_slice(&out.finish().unwrap()).unwrap(),
        counts,
    )
}

pub(super) fn profile() -> Value {
    profile_since(None).0
}

pub(super) fn thread<'v>(profile: &'v Value, name: &str) -> &'v Value {
    let threads = profile["threads"].as_array().unwrap();
    threads
        .iter()
        .find(|thread| thread["name"] == name)
        .unwrap_or_else(|| panic!("no thread {name}"))
}

pub(super) fn thread_names(profile: &Value) -> Vec<&str> {
    profile["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["name"].as_str().unwrap())
        .collect()
}

/// The counts of a thread in the log.
pub(super) fn log<'v>(profile: &'v Value, name: &str) -> &'v Value {
    let rows = profile["profilingLog"]["4321"]["threads"]
        .as_array()
        .unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

fn at(value: &Value, index: usize) -> Option<usize> {
    value[index]
        .as_u64()
        .map(|number| usize::try_from(number).unwrap())
}

/// The names of a stack's frames, outermost first, joined; empty for none.
pub(super) fn stack_names(thread: &Value, stack: Option<usize>) -> String {
    let mut names = Vec::new();
    let mut next = stack;
    while let Some(stack) = next {
        let row = &thread["stackTable"]["data"][stack];
        let frame = &thread["frameTable"]["data"][at(row, 1).unwrap()];
        names.push(
            thread["stringTable"][at(frame, 0).unwrap()]
                .as_str()
                .unwrap(),
        );
        next = at(row, 0)
            .inspect(|around| assert!(*around < stack, "a stack before the one around it"));
    }
    names.reverse();
    names.join(" > ")
}

/// Samples as time, processor time and names.
pub(super) fn samples(thread: &Value) -> Vec<(f64, Option<u64>, String)> {
    let rows = thread["samples"]["data"].as_array().unwrap();
    let sample = |row: &Value| {
        assert_eq!(row[2], 0);
        (
            row[1].as_f64().unwrap(),
            row[3].as_u64(),
            stack_names(thread, at(row, 0)),
        )
    };
    rows.iter().map(sample).collect()
}

/// The stack in a marker's payload.
pub(super) fn marker_stack(thread: &Value, data: &Value) -> String {
    let samples = &data["stack"]["samples"];
    assert_eq!(
        samples["schema"],
        serde_json::json!({"stack": 0, "time": 1})
    );
    stack_names(thread, at(&samples["data"][0], 0))
}
