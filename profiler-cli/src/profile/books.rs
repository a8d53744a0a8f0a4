//! Where the entries of every process went, as the profile's own logs say.
//!
//! The rows are those of `profileGatheringLog`, which knows the missing processes too; a profile
//! without one (a process's own, or another profiler's) shows the processes that it holds. Both forms have the
//! same logs; in the processed form all processes' are in the outermost object.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::part::Part;
use super::thread::Head;
use crate::report::Row;

/// What a process says of its entries.
#[derive(Debug, Deserialize)]
pub(super) struct Books {
    total: Option<Total>,
}

#[derive(Debug, Deserialize)]
struct Total {
    recorded: u64,
    delivered: u64,
    evicted: u64,
    unfinished: u64,
    /// The sum of the drops, and each reason by its name.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// What a capture says of its course.
#[derive(Debug, Deserialize)]
pub(super) struct Gathering {
    #[serde(default)]
    processes: Vec<Logged>,
}

#[derive(Debug, Deserialize)]
struct Logged {
    name: String,
    pid: u64,
    verdict: String,
    threads: u64,
    recorded: u64,
    delivered: u64,
    evicted: u64,
    unfinished: u64,
    dropped: BTreeMap<String, u64>,
}

/// A row for every process.
pub(super) fn rows(mut root: Part) -> Vec<Row> {
    let gathering = std::mem::take(&mut root.gathering);
    let logged: Vec<Row> = gathering.into_values().flat_map(|log| log.processes).map(Row::from).collect();
    match (logged.is_empty(), root.meta.is_processed()) {
        (false, _) => logged,
        (true, true) => rows_by_pid(root),
        (true, false) => {
            let processes = std::mem::take(&mut root.processes);
            std::iter::once(root).chain(processes).map(row_of_part).collect()
        }
    }
}

impl From<Logged> for Row {
    fn from(log: Logged) -> Self {
        Self {
            name: log.name,
            pid: log.pid,
            threads: log.threads,
            recorded: log.recorded,
            delivered: log.delivered,
            evicted: log.evicted,
            dropped: log.dropped,
            unfinished: log.unfinished,
            verdict: log.verdict,
            ..Self::default()
        }
    }
}

/// A process of a profile without a log: an object of its own.
fn row_of_part(part: Part) -> Row {
    let Part { meta, threads, books, .. } = part;
    let row = row_of(&threads, meta.product);
    match books.into_values().find_map(|books| books.total) {
        Some(total) => with_books(row, total),
        None => row,
    }
}

/// The processes of a profile without a log that has all threads in one list.
fn rows_by_pid(root: Part) -> Vec<Row> {
    let Part { threads, mut books, .. } = root;
    let mut order: Vec<String> = Vec::new();
    let mut by_pid: BTreeMap<String, Vec<Head>> = BTreeMap::new();
    for head in threads {
        if !by_pid.contains_key(&head.pid) {
            order.push(head.pid.clone());
        }
        by_pid.entry(head.pid.clone()).or_default().push(head);
    }
    let row = |pid: String| {
        let row = row_of(&by_pid.remove(&pid)?, None);
        Some(match books.remove(&pid).and_then(|books| books.total) {
            Some(total) => with_books(row, total),
            None => row,
        })
    };
    order.into_iter().filter_map(row).collect()
}

/// A process without books.
fn row_of(threads: &[Head], product: Option<String>) -> Row {
    let main = threads.iter().find(|thread| thread.is_main()).or(threads.first());
    let name = main.and_then(|thread| thread.process_name.clone()).filter(|name| !name.is_empty());
    Row {
        name: product.filter(|product| !product.is_empty()).or(name).unwrap_or_default(),
        pid: main.map_or(0, Head::pid_number),
        threads: threads.len() as u64,
        verdict: "not said".to_owned(),
        ..Row::default()
    }
}

fn with_books(row: Row, total: Total) -> Row {
    let reasons = total.rest.into_iter().filter(|(name, _)| name != "dropped");
    Row {
        recorded: total.recorded,
        delivered: total.delivered,
        evicted: total.evicted,
        unfinished: total.unfinished,
        dropped: reasons.filter_map(|(name, count)| Some((name, count.as_u64()?))).collect(),
        ..row
    }
}
