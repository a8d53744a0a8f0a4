//! Properties of the exports that write each stack as a whole: a chain of calls with a sample on
//! each of its functions does not become the square of its length.
//!
//! Used by `foreign_files`.

use std::io::Read;

use profiler_export::{ExportOptions, Target, export};

use super::otlp;
use super::pprof;
use super::room::Room;

/// The number of functions of a stack that a format may write, with the mark for the others.
const MAX_FRAMES: u64 = 4097;
/// The most bytes of a location in a stack, whose number is less than 2^14.
const LOCATION: u64 = 2;
/// The most bytes for a function with its name, and for a sample besides its stack.
const ROW: u64 = 200;

/// A profile in which each of `depth` functions calls the next one, with a sample in each. A span
/// of `tracing` has the name of the innermost.
fn chain(depth: u64) -> String {
    let all = |of: &dyn Fn(u64) -> String| (0..depth).map(of).collect::<Vec<_>>().join(",");
    let same = |text: &str| all(&|_| text.to_owned());
    let numbers = all(&|number| number.to_string());
    let callers = all(&|number| match number {
        0 => "null".to_owned(),
        number => (number - 1).to_string(),
    });
    let (ones, nulls) = (same("1"), same("null"));
    let names = all(&|number| format!("\"f{number}\""));
    let last = depth - 1;
    format!(
        r#"{{"meta":{{"preprocessedProfileVersion":66,"interval":1,"sampleUnits":{{"threadCPUDelta":"ns"}},
        "categories":[]}},"libs":[],"threads":[{{"name":"main","processName":"app","pid":"1","tid":1,
        "samples":{{"length":{depth},"weight":null,"weightType":"samples","timeDeltas":[{ones}],
        "stack":[{numbers}],"threadCPUDelta":[{ones}]}},
        "markers":{{"length":1,"name":[{last}],"startTime":[1],"endTime":[1e9],"phase":[1],"category":[0],
        "data":[{{"type":"Span f 1","span":7}}]}}}}],
        "shared":{{"stackTable":{{"length":{depth},"frame":[{numbers}],"prefix":[{callers}]}},
        "frameTable":{{"length":{depth},"func":[{numbers}],"line":[{nulls}],"address":[{nulls}]}},
        "funcTable":{{"length":{depth},"name":[{numbers}]}},"stringArray":[{names}]}}}}"#
    )
}

/// Exports a chain of this depth.
pub(crate) fn check(depth: u64, room: &Room) {
    room.clear();
    let from = room.path("profile.json");
    std::fs::write(&from, chain(depth)).expect("a writable file");
    for target in [Target::OtlpProfiles, Target::Pprof] {
        let to = room.path("out");
        let options = ExportOptions::to(target).names(false);
        let done = export(&from, &to, &options).expect("an export");
        assert_eq!(done.samples, depth);
        let file = std::fs::File::open(&to).expect("the file");
        let mut plain = Vec::new();
        if target == Target::Pprof {
            let mut packed = flate2::read::GzDecoder::new(file);
            packed.read_to_end(&mut plain).expect("whole");
            assert_eq!(pprof::check(&plain), depth, "samples");
        } else {
            std::io::BufReader::new(file)
                .read_to_end(&mut plain)
                .expect("whole");
            otlp::check(target, &plain);
        }
        let stacks = (1..=depth).map(|frames| frames.min(MAX_FRAMES) * LOCATION + ROW);
        let most: u64 = stacks.sum();
        assert!(plain.len() as u64 <= most, "{target:?}: {}", plain.len());
        let mark = b"(callers left out)";
        assert!(
            plain.windows(mark.len()).any(|text| text == mark),
            "{target:?} has no mark"
        );
    }
}
