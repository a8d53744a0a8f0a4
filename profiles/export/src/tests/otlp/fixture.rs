//! The recording that the tests of OTLP encode: a front end that asks a worker, with spans of
//! `tracing` on two threads, intervals, a group, an inlined function, and counters.

use serde_json::{Value, json};

/// Texts; markers and functions refer to them by their places.
const TEXTS: [&str; 20] = [
    "main",
    "handle",
    "parse",
    "ask",
    "answer",
    "draw",
    "sent",
    "received",
    "server::front",
    "00ab00cd",
    "tenants",
    "phase",
    "src/main.rs",
    "app",
    "later",
    "lost",
    "follows from",
    "batch",
    "tick",
    "note",
];

fn text(name: &str) -> usize {
    TEXTS.iter().position(|text| *text == name).unwrap()
}

/// The markers of a thread. A row has its name, start, end, phase and payload.
fn markers(rows: &Value) -> Value {
    let rows = rows.as_array().unwrap();
    let column = |place: usize| rows.iter().map(|row| row[place].clone()).collect::<Value>();
    let names = rows.iter().map(|row| text(row[0].as_str().unwrap()));
    json!({
        "length": rows.len(), "name": names.collect::<Vec<_>>(), "startTime": column(1), "endTime": column(2),
        "phase": column(3), "category": vec![0; rows.len()], "data": column(4),
    })
}

fn thread(process: &str, pid: &str, tid: u64, name: &str, samples: Value, rows: &Value) -> Value {
    json!({
        "name": name, "isMainThread": name == "GeckoMain", "processName": process, "pid": pid, "tid": tid,
        "samples": samples, "markers": markers(rows),
    })
}

/// Samples at 1, 2, 3 … milliseconds with 1 ms of processor time each, except the first.
fn samples(stacks: &[Option<u32>]) -> Value {
    let ones = vec![1; stacks.len()];
    let cpu = vec![1_000_000; stacks.len()];
    json!({"length": stacks.len(), "weight": null, "weightType": "samples", "timeDeltas": ones, "stack": stacks,
           "threadCPUDelta": cpu})
}

/// The front end's threads.
fn front() -> [Value; 2] {
    let main = json!([
        ["handle", 1.0, 9.0, 1, {"type": "Span handle 1", "span": 7, "path": "/"}],
        ["ask", 2.0, 7.5, 1,
            {"type": "Span ask 1", "span": 8, "parent": 7, "http_method": "GET", "size": 12}],
        ["sent", 2.25, null, 0, {"type": "SpanFlow", "span": 8, "flow": text("00ab00cd")}],
        ["server::front", 7.0, null, 0,
            {"type": "Event server::front 1", "span": 8, "message": "ok"}],
        ["batch", 3.0, 6.0, 1, {"type": "Span", "span": 20, "group": text("tenants")}],
        ["phase", 3.5, 4.5, 1,
            {"type": "Phase", "done": true, "share": 0.5, "list": [1, null], "cause": {"stack": 1}}],
        ["tick", 4.0, null, 0, {"type": "Text", "name": "inside"}],
        ["tick", 20.0, null, 0, null],
    ]);
    let other = json!([
        // An event and a value of a span that began on the other thread.
        ["server::front", 8.0, null, 0,
            {"type": "Event server::front 1", "span": 7, "message": "end"}],
        ["handle", 8.5, null, 0, {"type": "Span handle 1", "span": 7, "status": 200}],
        ["note", 8.75, null, 0, {"type": "SpanDetail", "span": 20, "value": "half"}],
        ["later", 8.0, null, 2, {"type": "Span later 1", "span": 9, "parent": 7}],
        ["follows from", 8.0, null, 0,
            {"type": "SpanLink", "span": 9, "other": 8, "flow": text("answer")}],
    ]);
    // In `handle`, then in `ask` with the inlined `parse`, then in neither.
    let stacks = [None, Some(1), Some(3), Some(3), Some(3), Some(1), Some(0)];
    [
        thread("app", "12", 12, "GeckoMain", samples(&stacks), &main),
        thread("app", "12", 13, "io", samples(&[Some(0); 2]), &other),
    ]
}

/// The worker's thread.
fn worker() -> Value {
    let rows = json!([
        ["answer", 3.0, 6.0, 1, {"type": "Span answer 1", "span": 3}],
        ["received", 3.25, null, 0, {"type": "SpanFlow", "span": 3, "flow": text("00ab00cd")}],
        ["draw", 4.0, 5.0, 1, {"type": "Span draw 1", "span": 4, "parent": 3}],
        ["lost", null, 2.0, 3, {"type": "Span lost 1", "span": 5}],
    ]);
    let samples = samples(&[Some(0), Some(4), Some(4), Some(4), Some(5)]);
    thread("worker", "12.1", 12, "GeckoMain", samples, &rows)
}

/// A counter of a process.
fn counter(pid: &str, name: &str, category: &str, unit: &str, counts: &[f64]) -> Value {
    let numbers = vec![1; counts.len()];
    let deltas: Vec<f64> = counts.iter().map(|_| 400.0).collect();
    json!({"name": name, "category": category, "pid": pid, "description": "", "display": {"unit": unit},
           "samples": {"timeDeltas": deltas, "count": counts, "number": numbers}})
}

/// The processed form.
pub(in super::super) fn profile() -> Value {
    let schema = json!([
        {"name": "SpanFlow", "fields": [{"key": "flow", "format": "flow-id"}]},
        {"name": "SpanLink", "fields": [{"key": "flow", "format": "flow-id"}]},
        {"name": "Span", "fields": [{"key": "group", "format": "unique-string"}]},
        {"name": "Span ask 1", "fields": [{"key": "http_method", "label": "http.method", "format": "string"}]},
    ]);
    let [main, io] = front();
    let totals = json!({"recorded": 10, "delivered": 7, "evicted": 2, "unfinished": 0, "dropped": 1, "no_memory": 1});
    json!({
        "meta": {
            "preprocessedProfileVersion": 66, "interval": 1, "product": "app", "startTime": 1.7e12,
            "startTimeAsClockMonotonicNanosecondsSinceBoot": 5_000_000_000_u64, "profilingEndTime": 30,
            "sampleUnits": {"threadCPUDelta": "ns"}, "categories": [{"name": "Other", "color": "grey"}],
            "hosts": [{"name": "node-1"}], "platform": "linux", "abi": "x86_64", "markerSchema": schema,
        },
        "libs": [{"name": "app", "path": "/usr/bin/app", "codeId": "0AFF"}],
        "threads": [main, io, worker()],
        "counters": [
            counter("12", "processCPU", "CPU", "percent", &[0.0, 250_000_000.0, 250_000_000.0, 1.0]),
            counter("12", "Resident memory", "Memory", "bytes", &[4096.0, -96.0]),
            counter("12", "tenant a", "Group", "ms", &[0.0, 1.5, 2.5]),
            counter("12.1", "jobs", "Queue", "", &[3.0, -1.0]),
        ],
        "profilingLog": {"12": {"total": totals}},
        "shared": {
            "stackTable": {"length": 6, "frame": [0, 1, 2, 3, 4, 5], "prefix": [null, 0, 1, 2, 0, 4]},
            "frameTable": {"length": 6, "func": [0, 1, 3, 2, 4, 5], "line": [10, 20, 30, 31, null, null],
                           "address": [64, -1, 96, 96, -1, -1], "inlineDepth": [0, 0, 0, 1, 0, 0]},
            // main, handle, parse, ask, answer, draw
            "funcTable": {"length": 6, "name": [0, 1, 2, 3, 4, 5], "resource": [0, -1, 0, 0, -1, -1],
                          "source": [0, null, 0, 0, null, null], "lineNumber": [9, null, 5, 29, null, null],
                          "columnNumber": [null, null, null, null, null, null]},
            "resourceTable": {"length": 1, "lib": [0], "name": [text("app")]},
            "sources": {"length": 1, "filename": [text("src/main.rs")]},
            "stringArray": TEXTS,
        },
    })
}
