//! Properties of the exports of deep stacks: what is written grows with the length of a chain of
//! calls and the number of its samples, and not with their product.
//!
//! Used by `foreign_files`. The bytes are counted, not the time. A format that wrote each stack as
//! a whole would write four times as much for a chain of twice the length with twice the samples.

use std::io::Read;
use std::path::Path;

use profiler_export::{ExportOptions, Target, export};

use super::exported::{TARGETS, writes_stacks};
use super::otlp;
use super::pprof;
use super::room::Room;

/// The number of functions of the shorter chain: more than a format may write of a stack.
const DEPTH: u64 = 20_000;
/// There is a sample in each of this part of the functions, the innermost ones.
const PART: u64 = 200;

/// A profile in which each of `depth` functions calls the next one, with samples in the innermost.
/// A span of `tracing` has the name of the innermost.
fn chain(depth: u64) -> String {
    let all = |of: &dyn Fn(u64) -> String| (0..depth).map(of).collect::<Vec<_>>().join(",");
    let same = |text: &str| all(&|_| text.to_owned());
    let samples = depth / PART;
    let last_ones = |of: &dyn Fn(u64) -> String| {
        let each: Vec<String> = (depth - samples..depth).map(of).collect();
        each.join(",")
    };
    let weights = last_ones(&|_| "100".to_owned());
    let stacks = last_ones(&|number| number.to_string());
    let numbers = all(&|number| number.to_string());
    let callers = all(&|number| match number {
        0 => "null".to_owned(),
        number => (number - 1).to_string(),
    });
    let nulls = same("null");
    let names = all(&|number| format!("\"f{number}\""));
    let last = depth - 1;
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":66,"interval":1,"sampleUnits":{{"threadCPUDelta":"ns"}},
        "categories":[]}},"libs":[],"threads":[{{"name":"main","processName":"app","pid":"1","tid":1,
        "samples":{{"length":{samples},"weight":null,"weightType":"samples","timeDeltas":[{weights}],
        "stack":[{stacks}],"threadCPUDelta":[{weights}]}},
        "markers":{{"length":1,"name":[{last}],"startTime":[1],"endTime":[1e9],"phase":[1],"category":[0],
        "data":[{{"type":"Span f 1","span":7}}]}}}}],
        "shared":{{"stackTable":{{"length":{depth},"frame":[{numbers}],"prefix":[{callers}]}},
        "frameTable":{{"length":{depth},"func":[{numbers}],"line":[{nulls}],"address":[{nulls}]}},
        "funcTable":{{"length":{depth},"name":[{numbers}]}},"stringArray":[{names}]}}}}"#
    )
}

/// The bytes of a file, without compression.
fn plain(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("the file");
    let mut plain = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut packed = flate2::read::GzDecoder::new(&bytes[..]);
        packed.read_to_end(&mut plain).expect("whole");
        return plain;
    }
    bytes
}

/// Exports a chain of this depth. Returns everything that was written.
fn written(depth: u64, target: Target, room: &Room) -> Vec<u8> {
    room.clear();
    let from = room.path("profile.json");
    std::fs::write(&from, chain(depth)).expect("a writable file");
    let options = ExportOptions::to(target).names(false);
    let done = export(&from, &room.path("out"), &options).expect("an export");
    let has_samples = !matches!(target, Target::OtlpTraces | Target::OtlpMetrics);
    assert!(done.samples == depth / PART || !has_samples, "{target:?}");
    let files: Vec<Vec<u8>> = done.files.iter().map(|path| plain(path)).collect();
    files.concat()
}

/// Exports a chain, and one of twice the length, to every format.
pub(crate) fn check(room: &Room) {
    for target in TARGETS {
        let short = written(DEPTH, target, room);
        match target {
            Target::Pprof => assert_eq!(pprof::check(&short), DEPTH / PART, "samples"),
            Target::OtlpProfiles => otlp::check(target, &short),
            _ => {}
        }
        let mark = b"(callers left out)";
        let has_mark = short.windows(mark.len()).any(|text| text == mark);
        assert_eq!(has_mark, writes_stacks(target), "{target:?}");
        let long = written(2 * DEPTH, target, room);
        let (short, long) = (short.len(), long.len());
        assert!(
            long <= short * 5 / 2,
            "{target:?}: {short} and {long} bytes"
        );
    }
}
