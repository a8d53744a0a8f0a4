//! Test of traces for Perfetto with the descriptors of its own package for Python: row X11 of
//! `docs/features.md`.
//!
//! The engine reads traces in `integration-tests/viewer/perfetto.mjs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::installed::skip;
use integration_tests::tools;
use profiler_export::{ExportOptions, Target, TimeKind, export};
use serde_json::{Value, json};

/// Records processes with every kind of marker and counter, and losses.
const MARKERS: &str = env!("CARGO_BIN_EXE_marker_features");
/// Programs of known shares, in both formats: samples and libraries.
const SAMPLES: &str = env!("CARGO_BIN_EXE_both_formats");
/// The corpus of the export has what these programs do not record.
const CORPUS: &str = "../profiles/export/tests/corpus/profile_export";

/// Whether Python has Perfetto's descriptors. If not, the calling test is skipped.
fn has_descriptors() -> anyhow::Result<bool> {
    let import = "from perfetto.protos.perfetto.trace import perfetto_trace_pb2";
    let mut command = Command::new("python3");
    command.args(["-c", import]).stdin(Stdio::null());
    let has = command.output().is_ok_and(|output| output.status.success());
    if !has {
        skip("perfetto", "python3 cannot import the package `perfetto`")?;
    }
    Ok(has)
}

fn run(program: &str, arguments: &[&Path]) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {said}");
    Ok(())
}

/// Profiles in both formats.
fn profiles(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let own = |name: &str| directory.join(name);
    let [markers, expected, gecko] = [
        "features.json",
        "features.expect.json",
        "features.gecko.json",
    ]
    .map(own);
    run(MARKERS, &[&markers, &expected, &gecko])?;
    let [stacks, gecko_stacks] = ["stacks.json", "stacks.gecko.json"].map(own);
    run(SAMPLES, &[&stacks, &gecko_stacks])?;
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join(CORPUS);
    let corpus = ["trace.json", "processed.json", "weighted.json"].map(|name| corpus.join(name));
    let recorded = [markers, gecko, stacks, gecko_stacks];
    Ok(corpus.into_iter().chain(recorded).collect())
}

/// What a trace has, as the descriptors read it.
fn read(traces: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perfetto_fields.py");
    let mut command = Command::new("python3");
    command.arg(script).args(traces).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[test]
fn x11_every_field_of_a_trace_is_one_of_perfettos() -> anyhow::Result<()> {
    if !has_descriptors()? {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let mut traces = Vec::new();
    let mut samples = Vec::new();
    for (number, profile) in profiles(directory.path())?.iter().enumerate() {
        let trace = directory.path().join(format!("{number}.pftrace"));
        let options = ExportOptions::to(Target::Perfetto).time(TimeKind::Wall);
        samples.push(export(profile, &trace, &options.names(false))?.samples);
        traces.push(trace);
    }
    let contents = read(&traces)?;
    let shown: Vec<u64> = contents
        .iter()
        .filter_map(|it| it["samples"].as_u64())
        .collect();
    assert_eq!(shown, samples, "a sample each");
    assert!(samples.iter().sum::<u64>() > 10, "{samples:?}");
    let corpus = contents.first().context("no trace")?;
    let expected = json!({
        "types": {"TYPE_SLICE_BEGIN": 8, "TYPE_SLICE_END": 6, "TYPE_INSTANT": 2, "TYPE_COUNTER": 10},
        "flows": 2, "stacks": 1, "samples": 4, "clocks": [3], "commands": [["app -v"]],
    });
    assert_eq!(*corpus, expected);
    // The clock is the monotonic one.
    assert!(
        contents.iter().all(|it| it["clocks"] == json!([3])),
        "{contents:?}"
    );
    Ok(())
}

#[test]
fn x11_the_name_of_a_trace_decides_whether_it_is_compressed() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let profile = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(CORPUS)
        .join("trace.json");
    let mut lengths = Vec::new();
    for name in ["plain.pftrace", "packed.pftrace.gz"] {
        let to = directory.path().join(name);
        let words = [
            OsStr::new("export"),
            profile.as_os_str(),
            "--to".as_ref(),
            "perfetto".as_ref(),
            "-o".as_ref(),
            to.as_os_str(),
        ];
        tools::succeed(&words)?;
        let bytes = std::fs::read(&to)?;
        let is_packed = bytes.starts_with(&[0x1f, 0x8b]);
        ensure!(is_packed == name.ends_with(".gz"), "{name}");
        lengths.push(bytes.len());
    }
    ensure!(lengths[1] < lengths[0], "{lengths:?}");
    Ok(())
}
