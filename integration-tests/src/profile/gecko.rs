//! Parses a profile in the Gecko format: one object per process, with the parent around its
//! children.
//!
//! Called by [`super::Profile::read`]. The tests of this format are in `tests/gecko_format.rs`.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use super::counts::{LoggedCounts, by_thread};
use super::{Counter, Mark, Process, Thread, pauses};
use crate::samples::Samples;

/// All processes, the parent first.
pub(super) fn processes(json: &Value) -> anyhow::Result<Vec<Process>> {
    let children = json["processes"].as_array().context("no processes")?;
    // The parent has no threads if the profile is about its children only.
    let has_threads = |json: &&Value| json["threads"].as_array().is_none_or(|all| !all.is_empty());
    let parent = std::iter::once(json).filter(has_threads);
    parent.chain(children).map(process).collect()
}

/// The parent and the children with these names.
pub(super) fn some_processes(json: &Value, names: &[&str]) -> anyhow::Result<Vec<Process>> {
    let children = json["processes"].as_array().context("no processes")?;
    let is_named = |child: &&Value| names.iter().any(|name| child["meta"]["product"] == *name);
    let some = std::iter::once(json).chain(children.iter().filter(is_named));
    some.map(process).collect()
}

fn process(json: &Value) -> anyhow::Result<Process> {
    let threads = json["threads"].as_array().context("no threads")?;
    let first = threads.first().context("no thread")?;
    let name = first["processName"].as_str().context("no name")?;
    let pid = first["pid"].as_u64().context("no pid")?;
    let log = &json["profilingLog"][pid.to_string()];
    let counts = by_thread(log).context("no counts")?;
    let threads = threads
        .iter()
        .map(|row| thread(row, &json["libs"], &counts));
    Ok(Process {
        name: name.to_owned(),
        pid,
        threads: threads.collect::<anyhow::Result<_>>()?,
        total: LoggedCounts::parse(&log["total"]).unwrap_or_default(),
        counters: Counter::of_gecko(json)?,
        pauses: pauses(json),
    })
}

fn thread(
    json: &Value,
    libs: &Value,
    counts: &BTreeMap<u64, LoggedCounts>,
) -> anyhow::Result<Thread> {
    let strings = json["stringTable"].as_array().context("no strings")?;
    let rows = json["markers"]["data"].as_array().context("no markers")?;
    let marks = rows.iter().map(|row| mark(row, strings));
    let tid = json["tid"].as_u64();
    Ok(Thread {
        name: json["name"].as_str().context("no name")?.to_owned(),
        marks: marks.collect::<Option<_>>().context("a damaged marker")?,
        samples: Samples::of_gecko(json, libs)?,
        counts: tid.and_then(|tid| counts.get(&tid).cloned()),
    })
}

fn mark(row: &Value, strings: &[Value]) -> Option<Mark> {
    let name = strings.get(usize::try_from(row[0].as_u64()?).ok()?)?;
    Some(Mark {
        name: name.as_str()?.to_owned(),
        time: row[1].as_f64().or_else(|| row[2].as_f64())?,
        data: row[5].clone(),
    })
}
