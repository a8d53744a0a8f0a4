//! What observation adds to a program: time at its start, threads, descriptors and memory.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Observation;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::measure::{median, ns_of};
use integration_tests::tools;

const STARTS: usize = 200;
const ROUNDS: usize = 5;
const TRACES: &str = include_str!("traces.c");
/// A thousand programs, one after the other.
const THOUSAND: &str = "for i in $(seq 1000); do /bin/true; done";

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let observation = Observation::new()?;
    let lost = lost_us(|command| observation.observe(command))?;
    report.put(Figure::new("agent.start_us", lost, "us").promised(Promise::AtMost(100.0)));
    let idle = lost_us(|command| {
        command.env("LD_PRELOAD", &observation.library);
        Ok(())
    })?;
    report.put(Figure::new("agent.load_us.no_session", idle, "us"));
    drop(observation);
    report.put(
        Figure::new("agent.exec_ratio.true_1000", exec_ratio()?, "x")
            .promised(Promise::AtMost(1.3)),
    );
    traces(report)
}

/// The microseconds that a start takes longer with `change` than without.
fn lost_us(change: impl Fn(&mut Command) -> Result<()>) -> Result<f64> {
    let mut with = Vec::new();
    let mut without = Vec::new();
    for _ in 0..STARTS {
        with.push(start_us(&change)?);
        without.push(start_us(|_| Ok(()))?);
    }
    Ok(median(&with) - median(&without))
}

fn start_us(change: impl FnOnce(&mut Command) -> Result<()>) -> Result<f64> {
    let mut command = Command::new("/bin/true");
    change(command.stdin(Stdio::null()))?;
    let mut status = None;
    let ns = ns_of(|| status = Some(command.status()));
    let status = status.context("not run")??;
    ensure!(status.success(), "{status}");
    Ok(ns / 1e3)
}

/// The duration of a shell that starts a thousand programs, below the command, as a multiple of its
/// duration without the command. The shell measures its own duration.
fn exec_ratio() -> Result<f64> {
    let place = Workplace::new()?;
    let script = format!("a=$(date +%s%N); {THOUSAND}; b=$(date +%s%N); echo $((b - a))");
    let program = ["bash", "-c", &script];
    let ns = |output: std::process::Output| -> Result<f64> {
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(ns(place.run(&program)?)?);
        with.push(ns(place.record(&program)?.output)?);
    }
    Ok(median(&with) / median(&without))
}

/// The threads, descriptors and bytes of the heap that the command adds to a process, and how much
/// longer `getc` takes.
fn traces(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
    let program = place.compile("traces", TRACES, &["-O2"])?;
    let program = program.to_str().context("a path")?;
    ensure!(tools::profiler()?.exists(), "no command");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(numbers(&place.run(&[program])?.stdout)?);
        with.push(numbers(&place.record(&[program])?.output.stdout)?);
    }
    let of = |all: &[BTreeMap<String, f64>], name: &str| {
        let values: Vec<f64> = all
            .iter()
            .filter_map(|one| one.get(name).copied())
            .collect();
        median(&values)
    };
    for name in ["threads", "descriptors", "heap_bytes"] {
        let added = of(&with, name) - of(&without, name);
        let unit = if name == "heap_bytes" { "bytes" } else { "" };
        let name = match name {
            "heap_bytes" => "agent.heap_bytes".to_owned(),
            name => format!("agent.{name}_added"),
        };
        report.put(Figure::new(name, added, unit).promised(Promise::AtMost(0.0)));
    }
    let ratio = of(&with, "getc_s") / of(&without, "getc_s");
    report.put(Figure::new("agent.getc_ratio", ratio, "x").promised(Promise::AtMost(1.02)));
    Ok(())
}

/// The lines `name number` of an output.
fn numbers(output: &[u8]) -> Result<BTreeMap<String, f64>> {
    let text = String::from_utf8_lossy(output);
    let number = |line: &str| {
        let (name, value) = line.split_once(' ').context("no number")?;
        Ok((name.to_owned(), value.parse()?))
    };
    text.lines().map(number).collect()
}
