//! The contents that the profile must have, in the form that `integration-tests/viewer/check.mjs`
//! reads.
//!
//! They are computed from the work, not from the profile. If entries were evicted or dropped, the
//! numbers are upper bounds.

use profiler_parent::{CaptureReport, CapturedProcess};
use serde_json::{Value, json};

use crate::crew::Harvest;
use crate::link::Outcome;
use crate::parent::NAME;
use crate::worker::INDEXERS;

/// The expectation for a profile of this work.
pub(crate) fn expectation<'a>(harvest: &'a Harvest, captured: &'a CaptureReport) -> Value {
    let report = |name: &str| {
        captured
            .processes
            .iter()
            .find(|process| process.name == name)
    };
    let with_report = |outcome: &'a Outcome| Some((outcome, report(&outcome.name)?));
    let all = harvest
        .outcomes
        .iter()
        .filter_map(with_report)
        .filter(|(_, report)| report.verdict.is_present());
    let (workers, failed): (Vec<_>, Vec<_>) =
        all.partition(|(outcome, _)| outcome.failure.is_none());
    let mut processes: Vec<_> = report(NAME)
        .map(|own| parent(harvest, own))
        .into_iter()
        .collect();
    processes.extend(
        workers
            .iter()
            .map(|(outcome, report)| worker(outcome, report)),
    );
    let has_files = workers
        .iter()
        .any(|(outcome, report)| is_whole(report) && outcome.sum.files > 0);
    let whole = workers
        .iter()
        .filter(|(_, report)| is_whole(report))
        .map(|(outcome, _)| *outcome);
    json!({
        "processes": processes,
        "moreProcesses": !failed.is_empty(),
        "schemas": if has_files { json!([{ "name": "File", "fields": ["Path", "Size", "Words"] }]) } else { json!([]) },
        "markerLabels": whole.clone().filter_map(label).collect::<Vec<_>>(),
        "counters": whole.map(|outcome| json!({
            "process": outcome.name, "name": "Bytes read", "unit": "bytes",
        })).collect::<Vec<_>>(),
    })
}

fn parent(harvest: &Harvest, own: &CapturedProcess) -> Value {
    let links = harvest.outcomes.len() as u64;
    let merged = harvest
        .outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_none())
        .count() as u64;
    let count = |n| count(own, n);
    let mut threads = vec!["GeckoMain".to_owned()];
    threads.extend(
        harvest
            .outcomes
            .iter()
            .map(|outcome| format!("link to {}", outcome.name)),
    );
    json!({
        "name": own.name,
        "pid": own.pid.get(),
        "threads": if is_whole(own) { json!(threads) } else { json!({ "max": threads.len() }) },
        "markers": {
            "start workers": count(1),
            "walk": count(1),
            "hand out": count(links),
            "take index": count(merged),
            "merge": count(merged),
            "indexed": count(1),
        },
    })
}

fn worker(outcome: &Outcome, own: &CapturedProcess) -> Value {
    let count = |n| count(own, n);
    let mut threads = vec!["GeckoMain".to_owned()];
    threads.extend((1..=INDEXERS).map(|number| format!("indexer {number}")));
    json!({
        "name": own.name,
        "pid": own.pid.get(),
        "threads": if is_whole(own) { json!(threads) } else { json!({ "max": threads.len() }) },
        "complete": is_whole(own),
        "markers": {
            "File": count(outcome.sum.files),
            "read": count(outcome.sum.reads),
            "count": count(outcome.sum.counts),
            "cannot read": count(outcome.unread),
            "take jobs": count(1),
            "index files": count(INDEXERS as u64),
            "merge": count(1),
            "send index": count(1),
        },
    })
}

/// Exactly this number, or at most this number if entries were lost.
fn count(process: &CapturedProcess, exactly: u64) -> Value {
    if is_whole(process) {
        json!(exactly)
    } else {
        json!({ "max": exactly })
    }
}

fn is_whole(process: &CapturedProcess) -> bool {
    process.counts.delivered == process.counts.recorded()
}

/// The label of a file whose name has no special characters of the viewer's search.
fn label(outcome: &Outcome) -> Option<Value> {
    let path = outcome.example.as_ref()?.to_str()?;
    let is_plain = path
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    is_plain.then(|| {
        json!({
            "process": outcome.name,
            "marker": "File",
            "label": path,
            "search": format!("path:{path}"),
        })
    })
}
