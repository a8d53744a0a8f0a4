//! Small recordings in the processed format that are made from a number.
//!
//! The texts, functions and types come from small sets, so that several recordings have some of
//! them in common, in another order.

use serde_json::{Value, json};

/// Pseudo-random numbers.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most.max(1) as u64) as usize
    }

    /// A value, or null in one of four cases.
    fn maybe(&mut self, most: usize) -> Value {
        match self.below(4) {
            0 => Value::Null,
            _ => self.below(most).into(),
        }
    }

    fn list(&mut self, len: usize, mut of: impl FnMut(&mut Self, usize) -> Value) -> Value {
        (0..len).map(|row| of(self, row)).collect()
    }
}

const TEXTS: usize = 14;

/// The formats of the field `detail` of the type `Job`.
const DETAILS: [&str; 4] = ["integer", "unique-string", "time", "pid"];

/// A recording that began `start_ms` after 1970 on `host`.
pub(super) fn recording(seed: u64, host: &str, start_ms: f64) -> Value {
    let mut draw = Draw(seed | 1);
    let skip = draw.below(6);
    let texts: Vec<String> = (0..TEXTS).map(|at| format!("text {}", at + skip)).collect();
    let texts = [
        texts,
        vec!["beef".to_owned(), "00ab00000000cd12".to_owned()],
    ]
    .concat();
    let [libs, funcs, frames, stacks] = [1, 2, 3, 4].map(|least| least + draw.below(6));
    let detail = DETAILS[draw.below(DETAILS.len())];
    let categories = 1 + draw.below(3);
    let shared = shared(&mut draw, &texts, [libs, funcs, frames, stacks, categories]);
    let threads = 1 + draw.below(3);
    let threads: Vec<Value> = (0..threads)
        .map(|at| thread(&mut draw, at, stacks, categories, detail))
        .collect();
    let logs = json!({"7": {"profilingLogBegin_TSms": 0.5, "total": {"recorded": 9, "delivered": 9,
        "evicted": 0, "unfinished": 0}}});
    let counter = json!({"name": "bytes", "category": "Memory", "description": "", "pid": "7",
        "mainThreadIndex": 0, "samples": {"length": 3, "timeDeltas": [1.25, 2, 0.5],
        "count": [draw.below(9), 1, -1], "number": [0, 0, 0]}});
    json!({
        "meta": meta(&mut draw, host, start_ms, detail, categories),
        "libs": (0..libs).map(lib).collect::<Vec<_>>(),
        "threads": threads, "counters": [counter], "profilerOverhead": [], "shared": shared,
        "profilingLog": logs, "profileGatheringLog": {"7": {"profileGatheringLogBegin_TSms": 8,
            "events": [[8.5, "begun"]], "processes": [{"name": "p", "pid": 7, "verdict": "complete",
            "began_TSms": 0.25, "ended_TSms": null, "threads": 1, "recorded": 9, "delivered": 9,
            "evicted": 0, "unfinished": 0, "dropped": {}}]}},
    })
}

fn lib(number: usize) -> Value {
    let name = format!("lib{number}.so");
    json!({"arch": "x86_64", "name": name, "debugName": name, "path": name, "debugPath": name,
        "breakpadId": format!("{number:033}"), "codeId": null})
}

fn meta(draw: &mut Draw, host: &str, start_ms: f64, detail: &str, categories: usize) -> Value {
    let colors = ["grey", "blue", "green", "red"];
    let categories: Vec<Value> = (0..categories)
        .map(|at| match at {
            0 => json!({"name": "Other", "color": "grey", "subcategories": ["Other"]}),
            _ => json!({"name": format!("c{}", draw.below(3)), "color": colors[draw.below(4)],
                "subcategories": ["Other", format!("s{}", draw.below(3))]}),
        })
        .collect();
    let system = ["Linux 1", "Linux 2"][draw.below(2)];
    let schema = json!([
        {"name": "Job", "display": ["marker-table"], "fields": [{"key": "detail", "format": detail}]},
        {"name": "Sent", "display": [], "fields": [{"key": "flow", "format": "flow-id"},
            {"key": "at", "format": "time"}]},
    ]);
    json!({
        "version": 31, "preprocessedProfileVersion": 60, "interval": 1, "stackwalk": 1,
        "startTime": start_ms, "startUnixNs": start_ms as u64 * 1_000_000, "processType": 0,
        "profilingStartTime": 0, "profilingEndTime": 10 + draw.below(50), "product": "app",
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "categories": categories, "markerSchema": schema, "symbolicated": draw.below(2) == 0,
        "hosts": [{"name": host}], "oscpu": system, "abi": "x86_64",
        "initialVisibleThreads": [0], "initialSelectedThreads": [0],
    })
}

fn shared(draw: &mut Draw, texts: &[String], sizes: [usize; 5]) -> Value {
    let [libs, funcs, frames, stacks, categories] = sizes;
    let resources = draw.list(funcs, |draw, _| (draw.below(libs + 1) as i64 - 1).into());
    let funcs_of_frames = draw.list(frames, |draw, _| draw.below(funcs).into());
    // The frame of a label has no address, and its function has no library.
    let is_label = |frame: usize| {
        let func = funcs_of_frames[frame].as_u64().unwrap();
        resources[func as usize] == -1
    };
    json!({
        "stackTable": {"length": stacks,
            "frame": draw.list(stacks, |draw, _| draw.below(frames).into()),
            "prefix": draw.list(stacks, |draw, row| match row {
                0 => Value::Null,
                row => draw.maybe(row),
            })},
        "frameTable": {"length": frames,
            "address": draw.list(frames, |draw, row| match is_label(row) {
                true => (-1).into(),
                false => (draw.below(3) * 16).into(),
            }),
            "inlineDepth": draw.list(frames, |draw, _| draw.below(2).into()),
            "category": draw.list(frames, |draw, _| draw.maybe(categories)),
            "subcategory": draw.list(frames, |_, _| 0.into()),
            "func": funcs_of_frames,
            "nativeSymbol": draw.list(frames, |draw, _| draw.maybe(libs)),
            "innerWindowID": draw.list(frames, |_, _| Value::Null),
            "line": draw.list(frames, |draw, _| draw.maybe(90)),
            "column": draw.list(frames, |_, _| Value::Null)},
        "funcTable": {"length": funcs,
            "name": draw.list(funcs, |draw, _| draw.below(TEXTS).into()),
            "isJS": draw.list(funcs, |draw, _| (draw.below(2) == 0).into()),
            "relevantForJS": draw.list(funcs, |_, _| false.into()),
            "resource": resources,
            "source": draw.list(funcs, |draw, _| draw.maybe(2)),
            "lineNumber": draw.list(funcs, |draw, _| draw.maybe(90)),
            "columnNumber": draw.list(funcs, |_, _| Value::Null)},
        "resourceTable": {"length": libs,
            "lib": draw.list(libs, |_, row| row.into()),
            "name": draw.list(libs, |draw, _| draw.below(TEXTS).into()),
            "host": draw.list(libs, |_, _| Value::Null),
            "type": draw.list(libs, |_, _| 1.into())},
        "nativeSymbols": {"length": libs,
            "libIndex": draw.list(libs, |_, row| row.into()),
            "address": draw.list(libs, |_, row| (row * 16).into()),
            "name": draw.list(libs, |draw, _| draw.below(TEXTS).into()),
            "functionSize": draw.list(libs, |draw, _| draw.maybe(64))},
        "sources": {"length": 2, "uuid": [null, "id"],
            "filename": draw.list(2, |draw, _| draw.below(TEXTS).into())},
        "stringArray": texts,
    })
}

fn thread(draw: &mut Draw, at: usize, stacks: usize, categories: usize, detail: &str) -> Value {
    let samples = draw.below(6);
    let markers = draw.below(6);
    let name = if at == 0 {
        "GeckoMain".to_owned()
    } else {
        format!("t{at}")
    };
    json!({
        "name": name, "isMainThread": at == 0, "processType": "default", "processName": "p",
        "pid": "7", "tid": 7 + at, "registerTime": 0.5, "unregisterTime": null,
        "processStartupTime": 0.25, "processShutdownTime": null,
        "pausedRanges": [{"startTime": 1.5, "endTime": null, "reason": "profiler-paused"}],
        "samples": {"length": samples,
            "stack": draw.list(samples, |draw, _| draw.maybe(stacks)),
            "timeDeltas": draw.list(samples, |draw, _| (draw.below(9) as f64 + 0.25).into()),
            "threadCPUDelta": draw.list(samples, |draw, _| draw.maybe(1000)),
            "weight": null, "weightType": "samples"},
        "markers": {
            "data": draw.list(markers, |draw, _| payload(draw, stacks, detail)),
            "name": draw.list(markers, |draw, _| draw.below(TEXTS).into()),
            "startTime": draw.list(markers, |draw, _| (1.5 + draw.below(9) as f64).into()),
            "endTime": draw.list(markers, |_, _| Value::Null),
            "phase": draw.list(markers, |_, _| 0.into()),
            "category": draw.list(markers, |draw, _| draw.below(categories).into()),
            "length": markers},
    })
}

fn payload(draw: &mut Draw, stacks: usize, detail: &str) -> Value {
    let value: Value = match detail {
        "time" => json!(2.5),
        "pid" => json!("7"),
        _ => draw.below(TEXTS).into(),
    };
    match draw.below(4) {
        0 => Value::Null,
        1 => json!({"type": "Sent", "flow": TEXTS + draw.below(2), "at": 3.5, "note": "\"kept\""}),
        2 => json!({"type": "Job", "detail": value}),
        _ => json!({"type": "Job", "detail": value,
            "cause": {"time": 1.25, "stack": draw.below(stacks)}}),
    }
}
