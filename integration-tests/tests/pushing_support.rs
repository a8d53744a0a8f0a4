//! Helpers of the tests `pushing*`: the numbered markers that a store has, and the batches in a
//! spool.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use integration_tests::clickhouse::{Cluster, DATABASE};
use integration_tests::marks::check_of;
use integration_tests::relay::{Outcome, Relay};
use profiler_push::{PushDestination, PushReport};
use serde_json::Value;

pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The thread of the helper that records on request.
pub(crate) const MAIN: u32 = 1000;
/// The part of a target that only requests with markers have.
pub(crate) const SPANS: &str = "profiler_spans";

/// The address of the cluster's database behind a relay.
pub(crate) fn store(relay: &Relay) -> String {
    format!("clickhouse+http://{}/{DATABASE}", relay.address())
}

pub(crate) fn destination(address: &str) -> anyhow::Result<PushDestination> {
    Ok(PushDestination::parse(address)?)
}

/// The number of a thread and of a marker on it.
pub(crate) type MarkNumber = (u32, u64);

/// The number of the marker in a row of the table of spans, if it has one. Checks its sum.
fn mark_of(row: &Value) -> anyhow::Result<Option<MarkNumber>> {
    if row["kind"] != "Numbered" {
        return Ok(None);
    }
    let list = |key: &str| {
        row[key]
            .as_array()
            .with_context(|| format!("no {key}: {row}"))
    };
    let (keys, values) = (list("field.key")?, list("field.value")?);
    let number = |name: &str| -> anyhow::Result<u64> {
        let mut fields = keys.iter().zip(values);
        let (_, value) = fields.find(|(key, _)| *key == name).context("no field")?;
        Ok(value.as_str().context("no text")?.parse()?)
    };
    let (thread, sequence) = (u32::try_from(number("thread")?)?, number("sequence")?);
    ensure!(number("check")? == check_of(thread, sequence), "{row}");
    Ok(Some((thread, sequence)))
}

/// How often a store has each numbered marker, for each process.
pub(crate) fn stored_marks(
    cluster: &Cluster,
) -> anyhow::Result<BTreeMap<String, BTreeMap<MarkNumber, u64>>> {
    let answer = cluster.execute(
        "SELECT process, kind, field.key, field.value FROM profiler_spans FINAL
         WHERE kind = 'Numbered' FORMAT JSONEachRow",
    )?;
    let mut stored: BTreeMap<String, BTreeMap<MarkNumber, u64>> = BTreeMap::new();
    for line in answer.lines() {
        let row: Value = serde_json::from_str(line)?;
        let name = row["process"].as_str().context("no process")?;
        let process = stored.entry(name.to_owned()).or_default();
        if let Some(mark) = mark_of(&row)? {
            *process.entry(mark).or_default() += 1;
        }
    }
    Ok(stored)
}

/// The numbered markers of a process in the rows that a relay has accepted, in their order.
pub(crate) fn accepted_marks(relay: &Relay, process: &str) -> anyhow::Result<Vec<MarkNumber>> {
    let mut marks = Vec::new();
    for request in relay.requests() {
        if request.outcome != Outcome::Answered(200) || !request.target.contains(SPANS) {
            continue;
        }
        for row in serde_json::Deserializer::from_slice(&request.body).into_iter::<Value>() {
            let row = row?;
            if row["process"] == process {
                marks.extend(mark_of(&row)?);
            }
        }
    }
    Ok(marks)
}

/// Checks that a store has the first `count` markers of a thread once each, and no others.
pub(crate) fn are_stored_once(
    marks: &BTreeMap<MarkNumber, u64>,
    thread: u32,
    count: u64,
) -> anyhow::Result<()> {
    let own = marks.iter().filter(|((of, _), _)| *of == thread);
    let own: Vec<_> = own.map(|((_, number), times)| (*number, *times)).collect();
    let lost = (0..count).filter(|number| own.binary_search(&(*number, 1)).is_err());
    let lost: Vec<u64> = lost.collect();
    ensure!(lost.is_empty(), "thread {thread}: not once: {lost:?}");
    ensure!(own.len() as u64 == count, "thread {thread}: {own:?}");
    Ok(())
}

/// Checks that no body was sent again after it was accepted.
pub(crate) fn none_is_sent_after_its_answer(relay: &Relay) -> anyhow::Result<()> {
    let mut accepted = std::collections::BTreeSet::new();
    for request in relay.requests() {
        let key = request.key().to_owned();
        ensure!(!key.is_empty(), "no key: {}", request.head);
        ensure!(!accepted.contains(&key), "{key} is sent again");
        if request.outcome == Outcome::Answered(200) {
            accepted.insert(key);
        }
    }
    Ok(())
}

/// Checks that the only destination has got everything.
pub(crate) fn delivered_all(report: &PushReport) -> anyhow::Result<()> {
    let destination = report.destinations.first().context("no destination")?;
    let left_out = destination.lost.batches + destination.rejected.batches;
    ensure!(
        left_out + destination.waiting_batches + report.missed_entries == 0,
        "{report:?}"
    );
    ensure!(
        destination.sent.entries == report.captured_entries,
        "{report:?}"
    );
    Ok(())
}

/// The complete batches in a spool, with their sizes, the oldest first.
pub(crate) fn batches(spool: &Path) -> Vec<(PathBuf, u64)> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries(spool).flat_map(|home| {
        let files: Vec<_> = entries(&home.path()).collect();
        files
    });
    let batches = files.filter(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.ends_with(".json.gz") && name.starts_with(|letter: char| letter.is_ascii_digit())
    });
    // A batch may be removed at any time.
    let batches = batches.filter_map(|file| Some((file.path(), file.metadata().ok()?.len())));
    let mut batches: Vec<_> = batches.collect();
    batches.sort();
    batches
}

/// The number of entries in the name of a batch.
pub(crate) fn entries_of(batch: &Path) -> anyhow::Result<u64> {
    let name = batch.file_name().context("no name")?.to_string_lossy();
    let entries = name
        .strip_suffix(".json.gz")
        .and_then(|name| name.split_once('-'));
    Ok(entries.with_context(|| name.to_string())?.1.parse()?)
}

/// Whether a batch in a spool has the marker with this number.
pub(crate) fn is_spooled(spool: &Path, number: u64) -> bool {
    let text = format!("\"sequence\":{number},");
    let has_it = |path: &Path| {
        let mut content = String::new();
        let file = fs::File::open(path).ok()?;
        GzDecoder::new(file).read_to_string(&mut content).ok()?;
        Some(content.contains(&text))
    };
    batches(spool)
        .iter()
        .any(|(path, _)| has_it(path) == Some(true))
}
