//! Properties of the exports of any file: no export panics, a file that can be read is well-formed
//! in every format, the sums agree, and the length of the output is bounded by that of the input.
//!
//! Used by `foreign_files`, `imported` and fuzz targets.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use profiler_export::{ExportError, ExportOptions, Exported, Target, TimeKind, export};
use serde_json::Value;

use super::otlp;
use super::perfetto;
use super::pprof;
use super::room::Room;

/// All formats.
pub(crate) const TARGETS: [Target; 10] = [
    Target::CpuProfile,
    Target::Speedscope,
    Target::ChromeTrace,
    Target::Folded,
    Target::Pprof,
    Target::Perfetto,
    Target::OtlpTraces,
    Target::OtlpMetrics,
    Target::OtlpProfiles,
    Target::ClickHouse,
];

/// Whether a format writes each stack as a whole, and not a tree of them.
pub(crate) fn writes_stacks(target: Target) -> bool {
    !matches!(
        target,
        Target::CpuProfile | Target::ChromeTrace | Target::OtlpTraces | Target::OtlpMetrics
    )
}

/// Exports a text to every format with both kinds of time. Returns the number of samples if the
/// text is a profile.
pub(crate) fn check(text: &[u8], room: &Room) -> Option<u64> {
    room.clear();
    let from = room.path("profile.json");
    std::fs::write(&from, text).expect("a writable file");
    let samples = [TimeKind::Cpu, TimeKind::Wall].map(|time| check_time(&from, text, time, room));
    assert_eq!(
        samples[0], samples[1],
        "the kind of time changes the weights of samples, not their number"
    );
    samples[0]
}

fn check_time(from: &Path, text: &[u8], time: TimeKind, room: &Room) -> Option<u64> {
    let mut all: Vec<Option<Exported>> = Vec::new();
    for target in TARGETS {
        let to = room.path("out");
        let options = ExportOptions::to(target).time(time).names(false);
        match export(from, &to, &options) {
            Ok(done) => {
                check_files(target, &done, &to);
                assert!(
                    bytes(&done) <= most_bytes(text),
                    "{} bytes from {} in {target:?}",
                    bytes(&done),
                    text.len()
                );
                all.push(Some(done));
            }
            Err(error) => {
                assert!(
                    matches!(error, ExportError::NotAProfile { .. }),
                    "{target:?}: {error}"
                );
                assert!(
                    is_directory(target) || !to.exists(),
                    "{target:?} leaves a file"
                );
                all.push(None);
            }
        }
        if to.is_dir() {
            std::fs::remove_dir_all(&to)
        } else {
            std::fs::remove_file(&to)
        }
        .ok();
        assert_eq!(room.count(), 1, "{target:?} leaves a file");
    }
    check_agreement(&all);
    all.into_iter().next().flatten().map(|done| done.samples)
}

/// Whether the output is a directory, which remains after an error.
fn is_directory(target: Target) -> bool {
    matches!(target, Target::CpuProfile | Target::ClickHouse)
}

/// Checks that all formats have the same samples and threads. Some formats contain markers,
/// counters or logs, so only their exports may fail because of a damaged one.
fn check_agreement(all: &[Option<Exported>]) {
    let counts: Vec<Option<(u64, u64)>> = all
        .iter()
        .map(|done| done.as_ref().map(|done| (done.samples, done.threads)))
        .collect();
    for (target, count) in TARGETS.iter().zip(&counts) {
        let has_samples_only = matches!(
            target,
            Target::CpuProfile | Target::Speedscope | Target::Folded
        );
        let may_differ = !has_samples_only && count.is_none();
        assert!(may_differ || *count == counts[0], "{target:?}: {counts:?}");
    }
}

fn bytes(done: &Exported) -> u64 {
    done.files
        .iter()
        .map(|file| file.metadata().expect("a file").len())
        .sum()
}

/// The maximum length of an output. Every sample may repeat a stack, and every node of a tree a
/// name; the length of the input limits how often.
fn most_bytes(text: &[u8]) -> u64 {
    let length = text.len() as u64;
    (1 << 16) + length * 64 + length * length / 4
}

fn check_files(target: Target, done: &Exported, to: &Path) {
    match target {
        Target::CpuProfile => check_cpuprofiles(done),
        Target::Speedscope => check_speedscope(&json(to)),
        Target::ChromeTrace => check_trace(&json(to), done),
        Target::Folded => check_folded(to),
        Target::Perfetto => {
            let trace = std::fs::read(to).expect("the file");
            assert_eq!(perfetto::check(&trace), done.samples, "samples");
        }
        Target::Pprof => {
            let mut plain = Vec::new();
            let file = std::fs::File::open(to).expect("the file");
            flate2::read::GzDecoder::new(file)
                .read_to_end(&mut plain)
                .expect("whole");
            assert_eq!(pprof::check(&plain), done.samples, "samples");
        }
        Target::OtlpTraces | Target::OtlpMetrics | Target::OtlpProfiles => {
            otlp::check(target, &std::fs::read(to).expect("the file"));
        }
        Target::ClickHouse => check_rows(done),
    }
}

/// Every line is a row, and the arrays of a row of samples are equally long.
fn check_rows(done: &Exported) {
    let mut samples = 0;
    for path in &done.files {
        let file = std::fs::File::open(path).expect("the file");
        let mut text = String::new();
        let mut plain = flate2::read::GzDecoder::new(file);
        plain.read_to_string(&mut text).expect("whole");
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).expect("a row");
            let length = |key: &str| row.get(key).map_or(0, |value| array(value).len());
            let lengths = ["stack", "wall_us", "cpu_us"].map(|of| length(&format!("sample.{of}")));
            assert!(lengths.iter().all(|length| *length == lengths[0]), "{line}");
            samples += lengths[0] as u64;
        }
    }
    assert_eq!(samples, done.samples, "samples");
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("the file")).expect("JSON")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no whole number"))
}

fn check_cpuprofiles(done: &Exported) {
    let index = json(&done.files[0]);
    let listed = array(&index["profiles"]);
    assert_eq!(listed.len() + 1, done.files.len());
    let names: HashSet<&str> = listed
        .iter()
        .map(|row| row["file"].as_str().expect("a name"))
        .collect();
    assert_eq!(names.len(), listed.len(), "each profile has its own file");
    for (row, file) in listed.iter().zip(&done.files[1..]) {
        let profile = json(file);
        check_nodes(array(&profile["nodes"]), array(&profile["samples"]));
        let start = int(&profile["startTime"]);
        let end = int(&profile["endTime"]);
        assert_eq!((int(&row["startTime"]), int(&row["endTime"])), (start, end));
        let deltas: Vec<i64> = array(&profile["timeDeltas"]).iter().map(int).collect();
        assert_eq!(deltas.len(), array(&profile["samples"]).len());
        let sum: i64 = deltas.iter().sum();
        assert!(
            deltas.iter().all(|delta| *delta >= 0) && start + sum <= end,
            "{start} + {sum}, {end}"
        );
        assert!(int(&row["idleTime"]) <= end - start + 1, "{row}");
    }
}

/// Checks that the nodes are a tree with one root, and that every sample is on a node.
fn check_nodes(nodes: &[Value], samples: &[Value]) {
    let mut known = HashSet::new();
    let mut hits = 0;
    let mut children: Vec<i64> = Vec::new();
    for node in nodes {
        assert!(known.insert(int(&node["id"])), "a number twice");
        hits += int(&node["hitCount"]);
        children.extend(node["children"].as_array().into_iter().flatten().map(int));
        assert!(node["callFrame"]["functionName"].is_string());
        assert!(
            int(&node["callFrame"]["lineNumber"]) >= -1
                && int(&node["callFrame"]["columnNumber"]) >= -1
        );
    }
    let unique: HashSet<i64> = children.iter().copied().collect();
    assert!(
        unique.len() == children.len() && children.len() + 1 == nodes.len(),
        "a tree with one root"
    );
    assert!(unique.iter().all(|child| known.contains(child)));
    assert!(samples.iter().all(|sample| known.contains(&int(sample))));
    assert_eq!(hits, samples.len() as i64);
}

fn check_speedscope(file: &Value) {
    let frames = array(&file["shared"]["frames"]).len() as u64;
    for profile in array(&file["profiles"]) {
        let samples = array(&profile["samples"]);
        let weights = array(&profile["weights"]);
        assert_eq!(samples.len(), weights.len());
        let known = |frame: &Value| frame.as_u64().is_some_and(|frame| frame < frames);
        assert!(samples.iter().all(|stack| array(stack).iter().all(known)));
        let sum: i64 = weights.iter().map(int).sum();
        assert_eq!(
            sum,
            int(&profile["endValue"]) - int(&profile["startValue"]),
            "weights are the time"
        );
    }
}

fn check_trace(file: &Value, done: &Exported) {
    let mut nodes = HashSet::new();
    let mut samples = 0;
    for event in array(&file["traceEvents"]) {
        assert!(
            event["ph"].is_string() && event["name"].is_string() && event["ts"].is_number(),
            "{event}"
        );
        assert!(
            event["dur"].is_null() || event["dur"].as_f64().is_some_and(|dur| dur >= 0.0),
            "{event}"
        );
        let data = &event["args"]["data"];
        if event["name"] != "ProfileChunk" || event["cat"] != "disabled-by-default-v8.cpu_profiler"
        {
            continue;
        }
        for node in array(&data["cpuProfile"]["nodes"]) {
            let parent = node["parent"].as_i64();
            assert!(
                parent.is_none_or(|parent| nodes.contains(&parent)),
                "callers come first"
            );
            assert!(nodes.insert(int(&node["id"])), "a number twice");
        }
        let here = array(&data["cpuProfile"]["samples"]);
        assert!(here.iter().all(|node| nodes.contains(&int(node))));
        assert_eq!(here.len(), array(&data["timeDeltas"]).len());
        assert!(
            array(&data["timeDeltas"])
                .iter()
                .all(|delta| int(delta) >= 0)
        );
        samples += here.len() as u64;
    }
    assert!(samples >= done.samples, "the trace also has pauses");
}

fn check_folded(path: &Path) {
    let text = std::fs::read_to_string(path).expect("UTF-8");
    for line in text.lines() {
        let (stack, us) = line.rsplit_once(' ').expect("a number at the end");
        assert!(
            stack.split(';').count() >= 3 && us.parse::<u64>().is_ok_and(|us| us > 0),
            "{line}"
        );
    }
}
