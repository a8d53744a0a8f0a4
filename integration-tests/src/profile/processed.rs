//! Parses a profile in the processed format: one list of the threads of all processes, with tables
//! that they share.
//!
//! Called by [`super::Profile::read`].

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;

use super::counts::{LoggedCounts, by_thread};
use super::{Counter, Mark, Process, Thread, pauses};
use crate::samples::{Samples, Stacks};

/// What the threads of all processes share.
struct SharedTables<'a> {
    strings: &'a [Value],
    stacks: Arc<Stacks>,
}

/// All processes, the parent first.
pub(super) fn processes(json: &Value) -> anyhow::Result<Vec<Process>> {
    let strings = json["shared"]["stringArray"].as_array();
    let shared = SharedTables {
        strings: strings.context("no strings")?,
        stacks: Arc::new(Stacks::of_processed(json)?),
    };
    let threads = json["threads"].as_array().context("no threads")?;
    // The threads of a process are next to each other.
    let parts = threads.chunk_by(|one, next| one["pid"] == next["pid"]);
    parts
        .map(|threads| process(threads, json, &shared))
        .collect()
}

/// The parent and the children with these names.
pub(super) fn some_processes(json: &Value, names: &[&str]) -> anyhow::Result<Vec<Process>> {
    let all = processes(json)?.into_iter().enumerate();
    let is_wanted = |place: usize, name: &str| place == 0 || names.contains(&name);
    let some = all.filter(|(place, process)| is_wanted(*place, &process.name));
    Ok(some.map(|(_, process)| process).collect())
}

fn process(
    threads: &[Value],
    profile: &Value,
    shared: &SharedTables<'_>,
) -> anyhow::Result<Process> {
    let first = threads.first().context("no thread")?;
    let name = first["processName"].as_str().context("no name")?;
    let id = first["pid"].as_str().context("no pid")?;
    // A process with the number of an earlier one has another number after a point.
    let pid = id.split_once('.').map_or(id, |(pid, _)| pid).parse()?;
    let log = &profile["profilingLog"][id];
    let counts = by_thread(log).context("no counts")?;
    let rows = threads.iter().map(|row| thread(row, shared, &counts));
    Ok(Process {
        name: name.to_owned(),
        pid,
        threads: rows.collect::<anyhow::Result<_>>()?,
        total: LoggedCounts::parse(&log["total"]).unwrap_or_default(),
        counters: Counter::of_processed(profile, id)?,
        pauses: pauses(first),
    })
}

fn thread(
    json: &Value,
    shared: &SharedTables<'_>,
    counts: &BTreeMap<u64, LoggedCounts>,
) -> anyhow::Result<Thread> {
    let tid = json["tid"].as_u64();
    Ok(Thread {
        name: json["name"].as_str().context("no name")?.to_owned(),
        marks: marks(&json["markers"], shared.strings).context("a damaged marker")?,
        samples: Samples::of_processed(json, &shared.stacks).context("a damaged sample")?,
        counts: tid.and_then(|tid| counts.get(&tid).cloned()),
    })
}

/// The markers of a thread. All columns must have the same length.
fn marks(table: &Value, strings: &[Value]) -> Option<Vec<Mark>> {
    let len = usize::try_from(table["length"].as_u64()?).ok()?;
    let column = |name: &str| table[name].as_array().filter(|rows| rows.len() == len);
    let [names, starts, ends, data] = ["name", "startTime", "endTime", "data"].map(column);
    let rows = names?.iter().zip(starts?).zip(ends?).zip(data?);
    rows.map(|(((name, start), end), data)| {
        let name = strings.get(usize::try_from(name.as_u64()?).ok()?)?;
        Some(Mark {
            name: name.as_str()?.to_owned(),
            time: start.as_f64().or_else(|| end.as_f64())?,
            data: data.clone(),
        })
    })
    .collect()
}
