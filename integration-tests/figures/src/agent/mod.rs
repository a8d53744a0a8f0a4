//! The figures of observed programs: what `profiler record` adds to them, how much longer they
//! take, and the processor time and memory of the session's reader. Also the costs of the functions
//! for C and Python.
//!
//! `start` measures the start of `/bin/true`, run alternately with and without the preloaded library
//! (differences and ratios of medians). `held` measures the handler. `reader` measures the reader's
//! thread in a session of this process. `programs` measures well-known programs below the command.
//! The functions for C and Python are measured by programs (`costs.c`, `costs.py`), in processes
//! that join the session.

mod held;
mod programs;
mod reader;
mod start;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::{Workplace, is_installed};

const COSTS: &str = include_str!("costs.c");
const PYTHON_COSTS: &str = include_str!("costs.py");
/// The sources of the package for Python.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integrations/python/src");

/// All figures of observed programs, and of the interfaces for C and Python.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    start::measure(report)?;
    held::measure(report)?;
    reader::measure(report)?;
    costs(report)?;
    programs::measure(report)
}

/// A session that observes programs, and the preloaded library in a file.
#[derive(Debug)]
struct Observation {
    session: Session,
    library: PathBuf,
    _place: tempfile::TempDir,
}

impl Observation {
    fn new() -> Result<Self> {
        let place = tempfile::tempdir()?;
        let library = place.path().join("libprofiler_observed.so");
        std::fs::write(&library, profiler_observed::LIBRARY)?;
        let limit = ByteLimit::new(1 << 30);
        Ok(Self {
            session: Session::builder().memory_limit(limit).start()?,
            library,
            _place: place,
        })
    }

    /// Makes the session observe the program of `command`.
    fn observe(&self, command: &mut Command) -> Result<()> {
        let (name, value) = self.session.observed_variable()?;
        command.env(name, value).env("LD_PRELOAD", &self.library);
        Ok(())
    }
}

/// The costs of the functions for C and for Python, without and with a session.
fn costs(report: &mut Report) -> Result<()> {
    let session = Session::builder()
        .memory_limit(ByteLimit::new(256 << 20))
        .start()?;
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.push("-O2");
    let program = place.compile("costs", COSTS, &options)?;
    let environment = session.environment()?;
    for names in [&[][..], &environment] {
        let mut command = Command::new(&program);
        command.envs(names.iter().cloned());
        costs_of(report, "c", &place, command)?;
    }
    if is_installed("python3") {
        let mut command = Command::new("python3");
        command
            .args(["-c", PYTHON_COSTS])
            .env("PYTHONPATH", PACKAGE);
        command.envs(environment.iter().cloned());
        costs_of(report, "python", &place, command)?;
    }
    Ok(())
}

/// Reports the costs that a program prints.
fn costs_of(
    report: &mut Report,
    language: &str,
    place: &Workplace,
    mut command: Command,
) -> Result<()> {
    let libraries = place.prefix().join("lib");
    command.env("PROFILER_AGENT", libraries.join("libprofiler_agent.so"));
    command.env("LD_LIBRARY_PATH", libraries);
    command.env("PROFILER_JOIN_WAIT_MS", "10000");
    let output = command.output()?;
    ensure!(output.status.success(), "{output:?}");
    for line in String::from_utf8(output.stdout)?.lines() {
        let (name, value) = line.split_once(' ').context("no figure")?;
        let unit = if name.ends_with("_ms") { "ms" } else { "ns" };
        let name = format!("agent.{language}.{name}");
        let promise = promise_of(&name);
        report.put(Figure::new(name, value.parse()?, unit).promised(promise));
    }
    Ok(())
}

fn promise_of(name: &str) -> Promise {
    match name {
        "agent.c.off_ns" => Promise::AtMost(2.0),
        "agent.c.site_off_ns" => Promise::AtMost(1.0),
        "agent.c.site_ns" => Promise::AtMost(25.0),
        "agent.python.span_ns" => Promise::AtMost(400.0),
        _ => Promise::None,
    }
}
