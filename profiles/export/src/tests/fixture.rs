//! The recording that the tests export: a parent and a child, two functions with the same name and
//! line in two files, a recursion, a wait, a pause.

use serde_json::{Value, json};

/// Number of samples of the parent's main thread.
pub(super) const SAMPLES: usize = 1000;

/// The stack of a sample. Of ten samples, four are in `new` of a.rs, three in `new` of b.rs, called
/// by itself, two in `wait`, and one in `main`.
pub(super) fn stack(sample: usize) -> usize {
    [1, 1, 1, 1, 3, 3, 3, 4, 4, 0][sample % 10]
}

/// The processor time of a sample. All samples except those in `wait` use processor time.
pub(super) fn cpu(sample: usize) -> u64 {
    if stack(sample) == 4 { 0 } else { 1_000_000 }
}

/// Names of the functions, by the stack of a sample.
pub(super) const NAMES: [&str; 5] = ["app::main", "new", "new", "new", "wait"];

/// The processed form, version 66.
pub(crate) fn processed() -> Value {
    let column = |of: fn(usize) -> Value| (0..SAMPLES).map(of).collect::<Vec<Value>>();
    let main = json!({
        "name": "GeckoMain", "isMainThread": true, "processName": "app", "pid": "12", "tid": 12, "pausedRanges": [],
        "samples": {
            "length": SAMPLES, "weight": null, "weightType": "samples", "timeDeltas": column(|_| json!(1)),
            "stack": column(|n| json!(stack(n))), "threadCPUDelta": column(|n| json!(cpu(n))),
        },
        "markers": {
            "length": 3, "name": [5, 5, 6], "startTime": [1.5, 3.25, 4], "endTime": [3.5, 5, null], "phase": [1, 1, 0],
            "category": [0, 0, 0],
            "data": [{"type": "Req", "url": 7, "flow": 8}, null, {"type": "Req", "done": 8, "cause": {"stack": 1}}],
        },
    });
    let short = |pid: &str, tid: u64, name: &str| {
        json!({
            "name": name, "isMainThread": pid == "12.1" && name == "GeckoMain", "processName": "child", "pid": pid, "tid": tid,
            "samples": {"length": 3, "stack": [0, 1, null], "timeDeltas": [500.25, 1.0005, 1.0005], "weight": null,
                        "weightType": "samples"},
        })
    };
    let schema = json!([{"name": "Req", "fields": [{"key": "url", "format": "unique-string"},
        {"key": "flow", "format": "flow-id"}, {"key": "done", "format": "terminating-flow-id"}]}]);
    json!({
        "meta": {
            "preprocessedProfileVersion": 66, "interval": 1, "product": "app", "startTime": 1.7e12,
            "startTimeAsClockMonotonicNanosecondsSinceBoot": 5_000_000_000_u64, "markerSchema": schema,
            "sampleUnits": {"threadCPUDelta": "ns"}, "categories": [{"name": "Other", "color": "grey"}],
        },
        "libs": [{"name": "app"}],
        "threads": [main, short("12.1", 12, "GeckoMain"), short("12.1", 13, "io")],
        "shared": {
            "stackTable": {"length": 5, "frame": [0, 1, 2, 2, 3], "prefix": [null, 0, 0, 2, 0]},
            "frameTable": {"length": 4, "func": [0, 1, 2, 3], "line": [10, 7, 6, null], "address": [64, 80, 96, -1]},
            "funcTable": {"length": 4, "name": [0, 1, 1, 2], "resource": [0, 0, 0, -1], "source": [null, 0, 1, null],
                          "lineNumber": [null, 5, 5, null], "columnNumber": [null, 3, 3, null]},
            "resourceTable": {"length": 1, "lib": [0], "name": [9]},
            "sources": {"length": 2, "filename": [3, 4]},
            "stringArray": ["app::main", "new", "wait", "src/a.rs", "src/b.rs", "request", "done", "/index", "ab", "app"],
        },
    })
}

/// The Gecko form of the same samples. It has no files, so the functions have different names, `new
/// a` and `new b`.
pub(crate) fn gecko() -> Value {
    let samples: Vec<Value> = (0..SAMPLES)
        .map(|n| json!([stack(n), n + 1, 0, cpu(n)]))
        .collect();
    let columns = json!({"stack": 0, "time": 1, "eventDelay": 2, "threadCPUDelta": 3});
    let thread = |pid: u64, samples: Value| {
        json!({
            "name": "GeckoMain", "pid": pid, "tid": pid, "processName": if pid == 12 { "app" } else { "child" },
            "samples": {"schema": columns, "data": samples},
            "markers": {"schema": {"name": 0, "startTime": 1, "endTime": 2, "phase": 3, "category": 4, "data": 5},
                        "data": [[0, 1.5, 3.5, 1, 0, {"type": "Text", "name": "x"}], [1, 2, null, 0, 0]]},
            "frameTable": {"schema": {"location": 0, "line": 4}, "data": [[0], [1], [2], [3]]},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[null, 0], [0, 1], [0, 2], [2, 2], [0, 3]]},
            "stringTable": ["app::main", "new a", "new b", "wait"],
        })
    };
    let meta = |start: f64| {
        json!({"version": 31, "interval": 1, "product": "app", "startTime": start, "markerSchema": [],
               "sampleUnits": {"time": "ms", "threadCPUDelta": "ns"}, "categories": [{"name": "Other"}]})
    };
    let child = json!({"meta": meta(1100.5), "libs": [], "threads": [thread(13, json!([[0, 1.0], [1, 2.0]]))]});
    json!({"meta": meta(1000.0), "libs": [], "threads": [thread(12, json!(samples))], "processes": [child]})
}
