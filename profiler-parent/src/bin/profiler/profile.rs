//! What a profile says of itself, read as a stream: of gigabytes only the names and books are kept.
//!
//! The rows are those of `profileGatheringLog`, which knows the missing processes too; a profile
//! without one (a process's own, or another profiler's) shows the processes that it holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_json::Value;

use crate::report::{Report, Row};

const BUFFER: usize = 256 * 1024;

/// One process's object. Everything that is not named here is skipped while it is read.
#[derive(Debug, Deserialize)]
struct Part {
    meta: Meta,
    #[serde(default)]
    threads: Vec<Thread>,
    #[serde(default)]
    processes: Vec<Part>,
    #[serde(default, rename = "profilingLog")]
    books: BTreeMap<String, Books>,
    #[serde(default, rename = "profileGatheringLog")]
    gathering: BTreeMap<String, Gathering>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    product: String,
    profiling_start_time: Option<f64>,
    profiling_end_time: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    pid: Value,
}

#[derive(Debug, Deserialize)]
struct Books {
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

#[derive(Debug, Deserialize)]
struct Gathering {
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

/// Reads a profile, compressed or not, whatever its name says.
pub(crate) fn read(path: &Path) -> Result<Report> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut plain = BufReader::with_capacity(BUFFER, file);
    let head = plain.fill_buf().with_context(|| format!("cannot read {}", path.display()))?;
    let root = match head.starts_with(&[0x1f, 0x8b]) {
        true => parse(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain))),
        false => parse(plain),
    };
    Ok(report(root.with_context(|| format!("{} is not a profile", path.display()))?))
}

fn parse(text: impl Read) -> serde_json::Result<Part> {
    serde_json::from_reader(text)
}

fn report(root: Part) -> Report {
    let range = root.meta.profiling_start_time.zip(root.meta.profiling_end_time);
    let logged: Vec<Row> =
        root.gathering.into_values().flat_map(|log| log.processes).map(Row::from).collect();
    let processes = match logged.is_empty() {
        false => logged,
        true => std::iter::once(row_of(&root.meta, &root.threads, root.books))
            .chain(root.processes.into_iter().map(|part| row_of(&part.meta, &part.threads, part.books)))
            .collect(),
    };
    Report { kind: "profile", processes, range_ms: range, ..Report::default() }
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

/// A process of a profile without a log.
fn row_of(meta: &Meta, threads: &[Thread], books: BTreeMap<String, Books>) -> Row {
    let pid = threads.first().map(|thread| &thread.pid);
    let pid = pid.and_then(|pid| pid.as_u64().or_else(|| pid.as_str()?.parse().ok()));
    let row = Row {
        name: meta.product.clone(),
        pid: pid.unwrap_or(0),
        threads: threads.len() as u64,
        verdict: "not said".to_owned(),
        ..Row::default()
    };
    match books.into_values().find_map(|books| books.total) {
        Some(total) => with_books(row, total),
        None => row,
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
