//! The text of a profile in the processed format.

use profiler_json::PROCESSED_VERSION;

use super::{Markers, Names, Shape, Stacks};

/// The texts of `number` values, with commas between them.
pub(super) fn list(number: usize, of: impl Fn(usize) -> String) -> String {
    (0..number).map(of).collect::<Vec<_>>().join(",")
}

/// The caller of a stack. `None` for the first one.
pub(super) fn caller(shape: &Shape, row: usize) -> Option<usize> {
    let before = row.checked_sub(1)?;
    Some(match shape.stacks_are {
        Stacks::Chain => before,
        // Rows with even numbers are the chain, the others its leaves.
        Stacks::Comb if row.is_multiple_of(2) => row - 2,
        Stacks::Comb => before,
        Stacks::Star => 0,
        Stacks::Tree => before / 2,
    })
}

/// The name of the function of a stack.
pub(super) fn name(shape: &Shape, row: usize) -> String {
    match shape.names {
        Names::Different => format!("f{row}"),
        Names::One => "f".to_owned(),
        Names::Seven => format!("f{}", row % 7),
        Names::Standard => format!("std::f{row}"),
        Names::Waits if row % 2 == 1 => {
            let process = 1 + row / 2 % shape.processes;
            format!("waiting for p{process} [{process}] (pipe)")
        }
        Names::Waits => format!("f{row}"),
    }
}

/// The profile.
pub(crate) fn profile(shape: &Shape) -> String {
    let threads = list(shape.threads, |number| thread(shape, number));
    let shared = shared(shape);
    let (logs, counters) = match shape.with_logs {
        true => (logs(shape), counter(shape)),
        false => Default::default(),
    };
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":{PROCESSED_VERSION},"version":31,"interval":1,"product":"app","startTime":1700000000000.0,
        "sampleUnits":{{"time":"ms","threadCPUDelta":"ns"}},"categories":[{{"name":"Other","color":"grey",
        "subcategories":["Other"]}}],"markerSchema":[{{"name":"Request","fields":[{{"key":"flow","format":"flow-id"}},
        {{"key":"done","format":"terminating-flow-id"}},{{"key":"url","format":"unique-string"}}]}}]}},
        "libs":[],{logs}"counters":[{counters}],"threads":[{threads}],"shared":{shared}}}"#
    )
}

/// The tables that threads share. The names of the functions are the first texts, those of markers
/// follow.
fn shared(shape: &Shape) -> String {
    let rows = shape.stacks;
    let numbers = list(rows, |row| row.to_string());
    let callers = list(rows, |row| {
        caller(shape, row).map_or_else(|| "null".to_owned(), |caller| caller.to_string())
    });
    let same = |value: &str| list(rows, |_| value.to_owned());
    let [nulls, none, zeros, falses] = ["null", "-1", "0", "false"].map(same);
    let names = list(rows, |row| format!("\"{}\"", name(shape, row)));
    let markers = list(shape.markers, |marker| format!("\"m{marker}\""));
    format!(
        r#"{{"stackTable":{{"length":{rows},"frame":[{numbers}],"prefix":[{callers}]}},
        "frameTable":{{"length":{rows},"func":[{numbers}],"line":[{nulls}],"column":[{nulls}],"address":[{none}],
        "inlineDepth":[{zeros}],"category":[{zeros}],"subcategory":[{zeros}],"nativeSymbol":[{nulls}],
        "innerWindowID":[{nulls}]}},
        "funcTable":{{"length":{rows},"name":[{numbers}],"isJS":[{falses}],"relevantForJS":[{falses}],
        "resource":[{none}],"source":[{nulls}],"lineNumber":[{nulls}],"columnNumber":[{nulls}]}},
        "resourceTable":{{"length":0,"lib":[],"name":[],"host":[],"type":[]}},
        "nativeSymbols":{{"length":0,"libIndex":[],"address":[],"name":[],"functionSize":[]}},
        "sources":{{"length":0,"uuid":[],"filename":[]}},"stringArray":[{names},{markers}]}}"#
    )
}

/// The rows of a table of the whole profile that belong to a thread.
const fn part(all: usize, shape: &Shape, thread: usize) -> std::ops::Range<usize> {
    all * thread / shape.threads..all * (thread + 1) / shape.threads
}

fn thread(shape: &Shape, number: usize) -> String {
    let process = 1 + number % shape.processes;
    let own = part(shape.samples, shape, number);
    let (first, samples) = (own.start, own.len());
    let stacks = list(samples, |at| shape.stack_of(first + at).to_string());
    let deltas = list(samples, |_| "1".to_owned());
    let cpu = match shape.with_cpu {
        true => list(samples, |at| (at % 3 * 500_000).to_string()),
        false => list(samples, |_| "null".to_owned()),
    };
    let markers = markers(shape, part(shape.markers, shape, number));
    let is_main = number < shape.processes;
    format!(
        r#"{{"name":"t{number}","isMainThread":{is_main},"processType":"default","processName":"p{process}",
        "pid":"{process}","tid":{},"processStartupTime":0,"processShutdownTime":null,"registerTime":0,
        "unregisterTime":null,"pausedRanges":[],
        "samples":{{"length":{samples},"weight":null,"weightType":"samples","timeDeltas":[{deltas}],
        "stack":[{stacks}],"threadCPUDelta":[{cpu}]}},{markers}}}"#,
        1000 + number
    )
}

/// The markers of a thread. Their numbers are those in the whole profile.
fn markers(shape: &Shape, own: std::ops::Range<usize>) -> String {
    let (first, count) = (own.start, own.len());
    let last = 2 * shape.markers;
    let column = |of: &dyn Fn(usize) -> String| list(count, |at| of(first + at));
    // The phases: 0 an instant, 1 an interval, 2 a start, 3 an end.
    let is_end = |marker: usize| marker - first >= count / 2;
    let phase = |marker| match shape.markers_are {
        Markers::Nested | Markers::Overlapping | Markers::Spans => 1,
        Markers::Open => 2 + usize::from(is_end(marker)),
        Markers::Flows => 0,
    };
    let names = column(&|marker| {
        let marker = match shape.markers_are {
            // The end of a start has its name.
            Markers::Open if is_end(marker) => first + (marker - first) % (count / 2).max(1),
            _ => marker,
        };
        (shape.stacks + marker).to_string()
    });
    let starts = column(&|marker| match phase(marker) {
        3 => "null".to_owned(),
        _ => marker.to_string(),
    });
    let ends = column(&|marker| match (phase(marker), shape.markers_are) {
        (0 | 2, _) => "null".to_owned(),
        (1, Markers::Overlapping) => (last + marker).to_string(),
        _ => (last - marker).to_string(),
    });
    let phases = column(&|marker| phase(marker).to_string());
    let categories = column(&|_| "0".to_owned());
    let data = column(&|marker| datum(shape, marker));
    format!(
        r#""markers":{{"length":{count},"name":[{names}],"startTime":[{starts}],"endTime":[{ends}],
        "phase":[{phases}],"category":[{categories}],"data":[{data}]}}"#
    )
}

/// The data of a marker.
fn datum(shape: &Shape, marker: usize) -> String {
    let text = shape.stacks + marker;
    let stack = shape.stack_of(marker);
    match shape.markers_are {
        Markers::Spans => {
            let parent = marker.max(1) - 1;
            format!(r#"{{"type":"Span f {marker}","span":{marker},"parent":{parent}}}"#)
        }
        Markers::Flows if marker % 2 == 1 => {
            format!(r#"{{"type":"Request","done":{}}}"#, text - 1)
        }
        Markers::Flows => format!(r#"{{"type":"Request","flow":{text}}}"#),
        _ => format!(r#"{{"type":"Request","url":{text},"cause":{{"time":1,"stack":{stack}}}}}"#),
    }
}

/// The logs of all processes, each of which was started by the one before it.
fn logs(shape: &Shape) -> String {
    let total = r#"{"recorded":9,"delivered":9,"evicted":0,"unfinished":0}"#;
    let own = list(shape.processes, |at| {
        format!(
            r#""{}":{{"profilingLogBegin_TSms":0.5,"total":{total}}}"#,
            at + 1
        )
    });
    let rows = list(shape.processes, |at| {
        let number = at + 1;
        format!(
            r#"{{"name":"p{number}","pid":{number},"parentPid":{at},"verdict":"complete","began_TSms":0,
            "ended_TSms":null,"threads":1,"recorded":9,"delivered":9,"evicted":0,"unfinished":0,"dropped":{{}}}}"#
        )
    });
    format!(
        r#""profilingLog":{{{own}}},"profileGatheringLog":{{"1":{{"profileGatheringLogBegin_TSms":9,
        "events":[[9.5,"begun"]],"processes":[{rows}]}}}},"#
    )
}

/// A counter with as many samples as the profile has.
fn counter(shape: &Shape) -> String {
    let [ones, numbers] = ["1", "3"].map(|value| list(shape.samples, |_| value.to_owned()));
    format!(
        r#"{{"name":"bytes","category":"Memory","description":"","pid":"1","mainThreadIndex":0,
        "samples":{{"length":{},"timeDeltas":[{ones}],"count":[{numbers}],"number":[{ones}]}}}}"#,
        shape.samples
    )
}
