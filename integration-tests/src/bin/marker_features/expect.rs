//! Builds the expectation that `viewer/check.mjs` reads: what the viewer must show of the
//! recording.

use profiler_core::marker::schema::GraphColor;
use profiler_parent::CaptureReport;
use serde_json::{Value, json};

use crate::parent::{EVERYTHING, PARENT, VICTIM};
use crate::record::{CATEGORIES, FOR_ANOTHER, HELPER, TEXTS};
use crate::types::{FORMATS, PLACES};

/// Returns everything that the profile must hold. Only the process numbers come from the run.
pub(crate) fn expectation(report: &CaptureReport) -> Value {
    let mut processes = [parent(), everything(), victim()];
    for (process, captured) in processes.iter_mut().zip(&report.processes) {
        process["pid"] = json!(captured.pid.get());
    }
    json!({
        "processes": processes,
        "threads": [{
            "process": EVERYTHING,
            "name": HELPER,
            "markers": { "own": 1, "for another": FOR_ANOTHER },
            "complete": true,
        }],
        "schemas": schemas(),
        "markerLabels": labels(),
        "markerFields": fields(),
        "counters": [
            { "process": EVERYTHING, "name": "Cache", "unit": "bytes", "graphType": "line-accumulated" },
            { "process": EVERYTHING, "name": "Buffers", "label": "Buffers", "unit": "bytes" },
            { "process": EVERYTHING, "name": "Read", "unit": "bytes", "graphType": "line-rate" },
            { "process": EVERYTHING, "name": "Jobs", "graphType": "line-accumulated" },
        ],
    })
}

/// Returns what the profile in the Gecko format must hold of the counters: one is the memory, rates
/// are counters, and all other levels are markers with a graph.
pub(crate) fn gecko_expectation() -> Value {
    let level =
        |name: &str, label: &str| json!({ "process": EVERYTHING, "marker": name, "label": label });
    json!({
        "processes": [{ "name": EVERYTHING }],
        "moreProcesses": true,
        "counters": [
            { "process": EVERYTHING, "name": "Cache", "label": "Memory" },
            { "process": EVERYTHING, "name": "Read", "graphType": "line-rate" },
        ],
        "counterCount": 2,
        "schemas": [
            { "name": "Level", "fields": ["Value"] },
            { "name": "MemoryLevel", "fields": ["Value"] },
        ],
        "markerLabels": [level("Jobs", "3"), level("Buffers", "1,024B")],
    })
}

fn parent() -> Value {
    json!({
        "name": PARENT,
        "threads": ["GeckoMain"],
        "markers": { "killed": 1, "Incomplete process": 1, "Entries lost": 1 },
        "complete": true,
    })
}

fn everything() -> Value {
    let mut markers = json!({
        "untyped": 2,
        "text": 1,
        "texts": TEXTS.len(),
        "dynamic 0": 1,
        "dynamic 1": 1,
        "dynamic 2": 1,
        "long text": 1,
        "timing": 4,
        "start and end": 1,
        "unfinished": 1,
        "end without start": 1,
        "outer scope": 1,
        "inner scope": 1,
        "scope with text": 1,
        "formats": 1,
        "labels": 2,
        "graphs": GraphColor::ALL.len(),
        "category": CATEGORIES.len() * 3,
        "own": 1,
        "for another": FOR_ANOTHER,
        "after the pause": 1,
        "Entries lost": 1,
    });
    for number in 0..PLACES.len() {
        markers[format!("place {number}")] = json!(1);
    }
    json!({ "name": EVERYTHING, "threads": ["GeckoMain", HELPER], "markers": markers, "complete": true })
}

/// The open scope is not expected, because a scope is recorded when it ends.
fn victim() -> Value {
    json!({
        "name": VICTIM,
        "threads": ["GeckoMain"],
        "markers": { "before the end": 1000, "never ended": 1 },
        "complete": true,
    })
}

fn schemas() -> Vec<Value> {
    let mut formats: Vec<_> = FORMATS.iter().map(|(key, _, _)| *key).collect();
    formats.push("A table");
    let mut schemas = vec![
        json!({ "name": "Formats", "fields": formats }),
        json!({ "name": "Labels", "fields": ["What", "Good", "Note"] }),
        json!({ "name": "Graphs", "fields": ["Bar", "Line", "Filled", "Colour"] }),
        json!({ "name": "InCategory", "fields": ["Subcategory"] }),
        json!({ "name": "IncompleteProcess", "fields": ["Process", "Process number", "Verdict"] }),
        json!("Text"),
        json!("ProfilerLosses"),
    ];
    schemas.extend(
        PLACES
            .iter()
            .map(|(name, _)| json!({ "name": name, "fields": ["Number"] })),
    );
    schemas
}

fn labels() -> Vec<Value> {
    let label = |process: &str, marker: &str, kind: &str, label: &str, count: usize| json!({ "process": process, "marker": marker, "kind": kind, "label": label, "count": count });
    let mut labels = vec![
        label(EVERYTHING, "labels", "chart", "chart: first", 1),
        label(
            EVERYTHING,
            "labels",
            "tooltip",
            "tooltip: labels, second",
            1,
        ),
        label(EVERYTHING, "labels", "table", "table: second 7", 1),
        label(EVERYTHING, "text", "table", "some text", 1),
        label(EVERYTHING, "scope with text", "table", "its text", 1),
        label(
            PARENT,
            "Incomplete process",
            "table",
            "victim: recovered: ended by signal 9 (SIGKILL)",
            1,
        ),
        label(
            EVERYTHING,
            "Entries lost",
            "table",
            "0 evicted, 1 dropped",
            1,
        ),
    ];
    let named = |category: &profiler_core::marker::Category| {
        label(EVERYTHING, "category", "table", category.name(), 3)
    };
    labels.extend(CATEGORIES.iter().map(named));
    let coloured = |(number, color): (usize, &GraphColor)| {
        label(
            EVERYTHING,
            "graphs",
            "table",
            &format!("{}: {number}", color.name()),
            1,
        )
    };
    labels.extend(GraphColor::ALL.iter().enumerate().map(coloured));
    labels
}

fn fields() -> Vec<Value> {
    let field = |marker: &str, field: &str, value: &str| json!({ "process": EVERYTHING, "marker": marker, "field": field, "value": value });
    let mut fields: Vec<_> = FORMATS
        .iter()
        .map(|(key, _, shown)| field("formats", key, shown))
        .collect();
    fields.push(field("labels", "Good", "true"));
    fields.push(field("labels", "Note", "a note"));
    fields.extend(
        TEXTS[1..]
            .iter()
            .map(|text| field("texts", "Details", text)),
    );
    fields
}
