//! The agent: the time that a program loses at its start, and the costs of the functions for C.
//!
//! The program that starts is `/bin/true`, run alternately with and without the agent; the figures
//! are differences of medians. It ends before it is recorded. `agent.c.call_ms` is the time that a
//! program loses if it calls a function for C, which waits until it is recorded. The functions for
//! C are measured by a program in C (`costs.c`), in a process that joins the session. `programs`
//! measures well-known programs.

mod programs;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::measure::{median, ns_of};
use integration_tests::patience::until;
use integration_tests::tools;

const STARTS: usize = 50;
const COSTS: &str = include_str!("costs.c");

/// All figures of the agent.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let preload = preload()?;
    let session = Session::builder()
        .memory_limit(ByteLimit::new(256 << 20))
        .start()?;
    let environment = session.environment()?;
    let joins = |command: &mut Command| {
        command.env("LD_PRELOAD", &preload);
        command.envs(environment.iter().cloned());
    };
    let loads = |command: &mut Command| {
        command.env("LD_PRELOAD", &preload);
    };
    let start = lost_ms(joins)?;
    report.put(Figure::new("agent.start_ms", start, "ms").promised(Promise::AtMost(2.0)));
    let listed = || {
        let all = session.processes().into_iter();
        all.filter(|process| process.name == "true").count()
    };
    let are_listed = until(|| listed() == STARTS);
    ensure!(are_listed, "{} of {STARTS} programs are listed", listed());
    let load = lost_ms(loads)?;
    report.put(Figure::new("agent.load_ms.no_session", load, "ms").promised(Promise::AtMost(2.0)));
    costs(report, &environment)?;
    programs::measure(report)
}

/// The value for `LD_PRELOAD`.
fn preload() -> Result<String> {
    let output = Command::new(tools::profiler()?)
        .arg("agent")
        .env("XDG_CACHE_HOME", tools::cache()?)
        .output()?;
    ensure!(output.status.success(), "the command has no agent");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The milliseconds that a start takes longer with `change` than without.
fn lost_ms(change: impl Fn(&mut Command)) -> Result<f64> {
    let mut with = Vec::new();
    let mut without = Vec::new();
    for _ in 0..STARTS {
        with.push(start_ms(&change)?);
        without.push(start_ms(|_| {})?);
    }
    Ok(median(&with) - median(&without))
}

fn start_ms(change: impl FnOnce(&mut Command)) -> Result<f64> {
    let mut command = Command::new("/bin/true");
    change(command.stdin(Stdio::null()));
    let mut status = None;
    let ns = ns_of(|| status = Some(command.status()));
    let status = status.context("not run")??;
    ensure!(status.success(), "{status}");
    Ok(ns / 1e6)
}

/// The costs of the functions, without and with a session.
fn costs(report: &mut Report, environment: &[(&'static str, String)]) -> Result<()> {
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.push("-O2");
    let program = place.compile("costs", COSTS, &options)?;
    for names in [&[][..], environment] {
        let mut command = Command::new(&program);
        command.envs(names.iter().cloned());
        command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
        command.env("PROFILER_JOIN_WAIT_MS", "10000");
        let output = command.output()?;
        ensure!(output.status.success(), "{output:?}");
        for line in String::from_utf8(output.stdout)?.lines() {
            let (name, value) = line.split_once(' ').context("no figure")?;
            let unit = name.rsplit('_').next().unwrap_or_default();
            let unit = if unit == "ms" { "ms" } else { "ns" };
            let figure = Figure::new(format!("agent.c.{name}"), value.parse()?, unit);
            report.put(match name {
                "off_ns" => figure.promised(Promise::AtMost(2.0)),
                _ => figure,
            });
        }
    }
    Ok(())
}
