//! Group `known_waits`: the waiting time in a profile, compared with the measurements of the
//! program.
//!
//! `share_error_pct` is the largest difference between a function's share of its thread's time in
//! the profile and the share that the program has measured, in points, over all threads and
//! functions of a run. `total_ratio` is the time of all samples, by their weights, as a part of the
//! threads' lives. `holder_named_pct` is the share of the waiting time whose holder is named, for
//! the kind of wait with the smallest share; `holder_wrong_pct` is the share with a wrong holder,
//! over all kinds. `path_error_pct` is the largest difference between the time of a process on the
//! critical path and the time that the program has measured, in percent of the path.
//! `throughput_loss_pct` is the loss of waits per second of 64 threads while they are recorded;
//! runs with and without the profiler alternate.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::known_holders::{KnownHolders, KnownPath, KnownRun};
use integration_tests::known_waits::{KnownWaits, PROGRAM, compile};
use integration_tests::measure::median;

const SECONDS: f64 = 12.0;
const RUNS: usize = 3;
/// Name, mode and pause in milliseconds of each program.
const PROGRAMS: &[(&str, &str, f64)] = &[
    ("pipe_0_3", "pipe", 0.3),
    ("pipe_3", "pipe", 3.0),
    ("pipe_30", "pipe", 30.0),
    ("mixed", "mixed", 3.0),
];
/// The pause of each of the 64 threads: together they wait about 70,000 times a second.
const CROWD_MS: &str = "0.5";
const CROWD_SECONDS: &str = "3";
const CROWD_RUNS: usize = 7;
/// The length of each wait for a known holder, the number of waits of each kind, and the number of
/// rounds of the program that knows its critical path.
const HOLDER_MS: u32 = 400;
const HOLDER_WAITS: u32 = 2;
const PATH_ROUNDS: u32 = 20;

/// All figures of known waits.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for (records_itself, degree) in [(false, "observed"), (true, "recording")] {
        for (name, mode, pause_ms) in PROGRAMS {
            let mut errors = Vec::new();
            let mut ratios = Vec::new();
            for _ in 0..RUNS {
                let waits = KnownWaits::record(mode, SECONDS, *pause_ms, records_itself)?;
                errors.push(waits.share_error_pct());
                ratios.push(waits.total_ratio());
            }
            let name = format!("{name}.{degree}");
            let error = Figure::new(
                format!("wait.share_error_pct.{name}"),
                median(&errors),
                "points",
            );
            report.put(error.promised(Promise::AtMost(2.0)));
            let ratio = Figure::new(format!("wait.total_ratio.{name}"), median(&ratios), "");
            report.put(ratio.promised(Promise::Between(0.98, 1.02)));
        }
    }
    holders(report)?;
    let loss = throughput_loss_pct()?;
    let loss = Figure::new("wait.throughput_loss_pct", loss, "%");
    report.put(loss.promised(Promise::AtMost(1.0)));
    Ok(())
}

/// The figures of the holders of waits and of the critical path.
fn holders(report: &mut Report) -> Result<()> {
    for (suffix, records_itself) in [("", false), (".recording", true)] {
        let (mut named, mut wrong) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let run = KnownRun::of_holders(HOLDER_MS, HOLDER_WAITS, records_itself)?;
            let known = KnownHolders::of(&run)?;
            named.push(known.named_pct());
            wrong.push(known.wrong_pct());
        }
        let name = |name: &str| format!("wait.{name}{suffix}");
        let named = Figure::new(name("holder_named_pct"), median(&named), "%");
        report.put(named.promised(Promise::AtLeast(95.0)));
        let wrong = Figure::new(name("holder_wrong_pct"), median(&wrong), "%");
        report.put(wrong.promised(Promise::AtMost(0.5)));
    }
    let mut errors = Vec::new();
    for _ in 0..RUNS {
        errors.push(KnownPath::of(&KnownRun::of_path(PATH_ROUNDS)?)?.error_pct());
    }
    let error = Figure::new("wait.path_error_pct", median(&errors), "%");
    report.put(error.promised(Promise::AtMost(3.0)));
    Ok(())
}

fn throughput_loss_pct() -> Result<f64> {
    let place = Workplace::new()?;
    let program = compile(&place, ("known_waits", PROGRAM), false)?;
    let program = program.to_str().context("a path that is no text")?;
    let words = [program, "crowd", CROWD_SECONDS, CROWD_MS];
    let profiler = integration_tests::tools::profiler()?;
    let mut losses = Vec::new();
    for _ in 0..CROWD_RUNS {
        let mut plain = Command::new(program);
        let plain = waits(plain.args(&words[1..]))?;
        let mut recorded = Command::new(&profiler);
        recorded
            .args(["record", "-o", "crowd.json", "--"])
            .args(words);
        let recorded = waits(recorded.current_dir(place.path()))?;
        losses.push((1.0 - recorded / plain) * 100.0);
    }
    Ok(median(&losses))
}

/// Runs a command; returns the number that it prints.
fn waits(command: &mut Command) -> Result<f64> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .with_context(|| format!("no number: {text}"))
}
