//! Tests of `profiler export` and `profiler import`: rows X3, X5 to X7 and X9 of
//! `docs/features.md`.
//!
//! The times in the written files are compared with those that `profiler info` reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::own_process;
use integration_tests::{session, tools};
use profiler_core::ids::ThreadId;
use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler};
use serde_json::{Value, json};

/// The self time of each function in a `.cpuprofile`, in microseconds, summed as viewers do, and
/// the length of the recording.
fn self_times(file: &Path) -> anyhow::Result<(BTreeMap<String, i64>, i64)> {
    let profile = tools::json(file)?;
    let list = |key: &str| profile[key].as_array().cloned().unwrap_or_default();
    let names: BTreeMap<u64, String> = list("nodes")
        .iter()
        .filter_map(|node| {
            Some((
                node["id"].as_u64()?,
                node["callFrame"]["functionName"].as_str()?.to_owned(),
            ))
        })
        .collect();
    let int = |value: &Value| value.as_i64().unwrap_or(0);
    let deltas: Vec<i64> = list("timeDeltas").iter().map(int).collect();
    let start = int(&profile["startTime"]) + deltas.first().copied().unwrap_or(0);
    let length = int(&profile["endTime"]) - start;
    let last = length - deltas.iter().skip(1).sum::<i64>();
    let mut times = BTreeMap::new();
    for (sample, us) in list("samples")
        .iter()
        .zip(deltas.iter().skip(1).copied().chain([last]))
    {
        let id = sample.as_u64().context("no node")?;
        *times
            .entry(names.get(&id).context("a sample of no node")?.clone())
            .or_default() += us;
    }
    Ok((times, length))
}

/// Exports a profile with the command, and returns the `.cpuprofile` files.
fn cpuprofiles(profile: &Path, directory: &Path, flags: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let words = ["export", "--to", "cpuprofile", "-o"].map(Path::new);
    let flags: Vec<&Path> = flags.iter().map(Path::new).collect();
    let arguments = [&words[..], &[directory, profile], &flags].concat();
    tools::succeed(&arguments)?;
    let index = tools::json(&directory.join("index.json"))?;
    let files = index["profiles"].as_array().context("no list")?.iter();
    Ok(files
        .filter_map(|row| Some(directory.join(row["file"].as_str()?)))
        .collect())
}

/// A recording of four threads in two processes, with irregular intervals. The functions used the
/// processor for part of the time.
fn recording() -> Value {
    const SAMPLES: usize = 4000;
    let column = |of: fn(usize) -> Value| (0..SAMPLES).map(of).collect::<Vec<Value>>();
    let thread = |number: usize| {
        json!({
            "name": "t", "isMainThread": number.is_multiple_of(2), "pid": (number / 2 + 1).to_string(), "tid": number,
            "processName": "p", "samples": {
                "length": SAMPLES, "weight": null, "weightType": "samples",
                "timeDeltas": column(|n| json!(0.9 + (n % 7) as f64 / 30.0)),
                "stack": column(|n| json!(n * 7 / 3 % 3)),
                "threadCPUDelta": column(|n| json!((n * 31 % 17) * 50_000)),
            },
        })
    };
    json!({
        "meta": {"preprocessedProfileVersion": 60, "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}},
        "threads": (0..4).map(thread).collect::<Vec<_>>(), "libs": [],
        "shared": {
            "stackTable": {"length": 3, "frame": [0, 1, 2], "prefix": [null, 0, 0]},
            "frameTable": {"length": 3, "func": [0, 1, 2]}, "funcTable": {"length": 3, "name": [0, 1, 2]},
            "stringArray": ["app::main", "app::one", "app::two"],
        },
    })
}

#[test]
fn x3_self_times_in_the_files_are_those_of_the_report() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("profile.json");
    fs::write(&profile, recording().to_string())?;
    for (flag, by) in [("--cpu", "cpu"), ("--wall", "wall")] {
        let said = tools::run(&["info", "--json", "--by", by, &profile.to_string_lossy()])?;
        let info: Value = serde_json::from_str(&said.out)?;
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        let files = cpuprofiles(&profile, &directory.path().join(by), &[flag])?;
        ensure!(files.len() == 4, "{files:?}");
        for file in files {
            let (times, length) = self_times(&file)?;
            ensure!(
                times.values().sum::<i64>() == length,
                "{times:?}: self and idle times do not add up to {length}"
            );
            times
                .into_iter()
                .for_each(|(name, us)| *sums.entry(name).or_default() += us);
        }
        let rows = info["samples"]["top"].as_array().context("no functions")?;
        ensure!(rows.len() == 3, "{info}");
        for row in rows {
            let name = row["function"].as_str().context("no name")?;
            let ms = row["self_ms"].as_f64().context("no time")?;
            let ours = *sums.get(name).context("not in the files")? as f64 / 1000.0;
            ensure!(
                (ours - ms).abs() <= ms / 100.0,
                "{by} {name}: {ours} ms, {ms} in the report"
            );
        }
    }
    Ok(())
}

#[test]
fn x9_what_node_recorded_is_reported_with_its_own_times() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/node.cpuprofile");
    let imported = directory.path().join("node.json.gz");
    tools::succeed(&[Path::new("import"), &file, Path::new("-o"), &imported])?;
    let (times, length) = self_times(&file)?;
    let info = tools::info(&imported)?;
    ensure!(
        (info["samples"]["all_ms"].as_f64().context("no sum")? - length as f64 / 1e3).abs() < 0.01,
        "{info}"
    );
    for row in info["samples"]["top"].as_array().context("no functions")? {
        let name = row["function"].as_str().context("no name")?;
        let expected = times
            .get(if name == "(anonymous)" { "" } else { name })
            .copied()
            .unwrap_or(0);
        let ms = row["self_ms"].as_f64().context("no time")?;
        ensure!(
            (ms - expected as f64 / 1e3).abs() < 0.01,
            "{name}: {ms} ms, {expected} µs in the file"
        );
    }
    ensure!(
        times.contains_key("spin") && info.to_string().contains("spin"),
        "{times:?}"
    );
    let again = cpuprofiles(&imported, &directory.path().join("again"), &[])?;
    ensure!(
        self_times(&again[0])?.1 == length,
        "the exported length differs from the imported one"
    );
    Ok(())
}

/// The thread number of the interpreter.
const ROW: ThreadId = ThreadId::new(0x7000_0001);

#[test]
fn x5_x6_x7_an_interpreters_safe_points_are_in_the_exported_files() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut sampler = SafePointSampler::new(ROW, Duration::from_millis(1));
    ensure!(sampler.start(), "no session");
    let name = |name| FunctionName {
        name,
        file: "script.lua",
        line: 12,
    };
    std::thread::sleep(Duration::from_millis(50));
    sampler.poll(|stack| {
        stack.push(FunctionId(1), || name("script main"));
        stack.push(FunctionId(2), || name("long native"));
    });
    sampler.suspend();
    std::thread::sleep(Duration::from_millis(60));
    sampler.resume();
    std::thread::sleep(Duration::from_millis(5));
    sampler.stop(|stack| stack.push(FunctionId(1), || name("script main")));
    let report = session
        .session()?
        .capture()
        .save(session.path("processed.json.gz"))?;
    let files = cpuprofiles(&report.path, &session.path("out"), &[])?;
    let own = files
        .iter()
        .find(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("script.lua")));
    let own = own.with_context(|| format!("the interpreter is in no file: {files:?}"))?;
    let profile = tools::json(own)?;
    let (times, length) = self_times(own)?;
    let samples = profile["samples"].as_array().map_or(0, Vec::len);
    ensure!(
        samples == 4,
        "X5, X7: not a sample each for start, long stretch, pause and end: {profile}"
    );
    let at_least = |name: &str, ms: i64| times.get(name).is_some_and(|us| *us >= ms * 1000);
    ensure!(
        at_least("long native", 50) && at_least("script main", 5),
        "{times:?}"
    );
    ensure!(
        at_least("(idle)", 60),
        "X6: the pause belongs to a function: {times:?}"
    );
    ensure!(times.values().sum::<i64>() == length, "{times:?}");
    let frame = profile["nodes"]
        .as_array()
        .context("no nodes")?
        .iter()
        .map(|node| &node["callFrame"]);
    let main = frame
        .clone()
        .find(|frame| frame["functionName"] == "script main")
        .context("no main")?;
    ensure!(
        main["url"] == "script.lua" && main["lineNumber"] == 11,
        "{main}"
    );
    Ok(())
}

#[test]
fn an_error_of_export_or_import_is_one_line() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("in.json");
    let out = directory.path().join("out");
    fs::write(&file, "{}")?;
    let file = file.to_string_lossy().into_owned();
    let out = out.to_string_lossy().into_owned();
    let missing = format!("{file}.none");
    let cases: [&[&str]; 5] = [
        &["export", &file, "--to", "pprof", "-o", &out],
        &["export", &missing, "--to", "folded", "-o", &out],
        &["export", &file, "--to", "nothing"],
        &["export", &file, "--to", "folded", "--cpu", "--wall"],
        &["import", &file, "-o", &out],
    ];
    for case in cases {
        tools::fail(case)?;
    }
    ensure!(!Path::new(&out).exists());
    Ok(())
}
