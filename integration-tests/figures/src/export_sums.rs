//! Group `export_sums`: the figures `export.sum_ratio.*`. Each is the time of all functions in an
//! exported file, divided by that in `profiler info`, for a recording on a busy machine.
//!
//! The recorded program is a shell with more busy and waiting processes than the machine has
//! processors. Each file is read by the rules of its format: the lines of folded stacks, the deltas
//! of `.cpuprofile` files, the weights of speedscope.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::tools;
use serde_json::Value;

/// Busy processes, and pipes in which processes wait for each other.
const SCRIPT: &str = r#"
spin() { i=0; while [ $i -lt 60000 ]; do i=$((i + 1)); done; }
for n in 1 2 3 4; do spin & done
for n in 1 2 3; do seq 200000 | sort -r | md5sum >/dev/null & done
sleep 0.5 | cat
wait
"#;

/// All figures of sums.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
    let mut command = Command::new(tools::profiler()?);
    command.args(["record", "-o", "busy.json", "--", "sh", "-c", SCRIPT]);
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let recorded = command.current_dir(place.path()).output()?;
    ensure!(recorded.status.success(), "record: {:?}", recorded.status);
    let profile = place.path().join("busy.json");
    for by in ["cpu", "wall"] {
        let told = told_ms(&profile, by)?;
        for (format, sum) in [
            ("folded", folded_ms as fn(&Path) -> Result<f64>),
            ("cpuprofile", cpuprofile_ms),
            ("speedscope", speedscope_ms),
        ] {
            let to = place.path().join(format!("{by}.{format}"));
            let (kind, name) = (format!("--{by}"), to.to_str().context("no text")?);
            let words = ["export", "--to", format, "--no-names", &kind, "-o", name];
            run(&[&words[..], &[profile.to_str().context("no text")?]].concat())?;
            let ratio = Figure::new(
                format!("export.sum_ratio.{format}.{by}"),
                sum(&to)? / told,
                "",
            );
            report.put(ratio.promised(Promise::Between(0.999, 1.001)));
        }
    }
    Ok(())
}

fn run(words: &[&str]) -> Result<String> {
    let said = tools::run(words)?;
    ensure!(said.code == Some(0), "{words:?}: {}", said.error);
    Ok(said.out)
}

/// The own time of all functions in `profiler info`.
fn told_ms(profile: &Path, by: &str) -> Result<f64> {
    let profile = profile.to_str().context("no text")?;
    let options = ["--json", "--no-names", "--by", by, "--top", "1000000"];
    let told: Value = serde_json::from_str(&run(&[&["info"], &options[..], &[profile]].concat())?)?;
    ensure!(told["samples"]["time"] == by, "no {by} time");
    let rows = told["samples"]["top"].as_array().context("no table")?;
    let rows = rows.iter().filter(|row| row["function"] != "(no stack)");
    Ok(rows.filter_map(|row| row["self_ms"].as_f64()).sum())
}

fn folded_ms(file: &Path) -> Result<f64> {
    let text = std::fs::read_to_string(file)?;
    let mut us = 0.0;
    for line in text.lines() {
        let (stack, time) = line.rsplit_once(' ').context("no time")?;
        if !is_idle(stack.rsplit(';').next().unwrap_or_default()) {
            us += time.parse::<f64>()?;
        }
    }
    Ok(us / 1e3)
}

/// Whether a name stands for time without a function.
fn is_idle(name: &str) -> bool {
    ["(idle)", "(program)", "(no stack)", "(root)"].contains(&name)
}

/// The time of the files of all threads in a directory.
fn cpuprofile_ms(directory: &Path) -> Result<f64> {
    let mut us = 0.0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "cpuprofile")
        {
            continue;
        }
        let profile: Value = serde_json::from_slice(&std::fs::read(path)?)?;
        let nodes = profile["nodes"].as_array().context("no nodes")?.iter();
        let name = |node: &Value| {
            node["callFrame"]["functionName"]
                .as_str()
                .map(str::to_owned)
        };
        let idle: Vec<&Value> = nodes
            .filter(|node| name(node).is_none_or(|name| is_idle(&name)))
            .map(|node| &node["id"])
            .collect();
        let samples = profile["samples"].as_array().context("no samples")?;
        let deltas = profile["timeDeltas"].as_array().context("no deltas")?;
        // A sample lasts until the next one.
        let ends = deltas.iter().skip(1).filter_map(Value::as_f64);
        let end = profile["endTime"].as_f64().context("no end")?;
        let start = profile["startTime"].as_f64().context("no start")?;
        let until_last: f64 = deltas.iter().filter_map(Value::as_f64).sum();
        let lengths = ends.chain([end - start - until_last]);
        let busy = samples
            .iter()
            .zip(lengths)
            .filter(|(id, _)| !idle.contains(id));
        us += busy.map(|(_, length)| length).sum::<f64>();
    }
    Ok(us / 1e3)
}

fn speedscope_ms(file: &Path) -> Result<f64> {
    let profile: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let frames = profile["shared"]["frames"]
        .as_array()
        .context("no frames")?;
    let is_idle_frame = |number: &Value| {
        let number = number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        let frame = number.and_then(|number| frames.get(number));
        frame.is_none_or(|frame| frame["name"].as_str().is_none_or(is_idle))
    };
    let mut ms = 0.0;
    for thread in profile["profiles"].as_array().context("no profiles")? {
        let per_ms = match thread["unit"].as_str() {
            Some("nanoseconds") => 1e6,
            Some("microseconds") => 1e3,
            Some("milliseconds") => 1.0,
            other => anyhow::bail!("unit {other:?}"),
        };
        let stacks = thread["samples"].as_array().context("no samples")?.iter();
        let weights = thread["weights"].as_array().context("no weights")?.iter();
        for (stack, weight) in stacks.zip(weights) {
            let innermost = stack.as_array().and_then(|stack| stack.last());
            if innermost.is_some_and(|frame| !is_idle_frame(frame)) {
                ms += weight.as_f64().context("no weight")? / per_ms;
            }
        }
    }
    Ok(ms)
}
