//! The figures of observed programs: what `profiler record` adds to them, how much longer they
//! take, and the processor time and memory of the session's reader. Also the costs of the functions
//! for C.
//!
//! `start` measures the start of `/bin/true`, run alternately with and without the preloaded library
//! (differences and ratios of medians). `held` measures the handler. `reader` measures the reader's
//! thread in a session of this process. `programs` measures well-known programs below the command.
//! The functions for C are measured by a program in C (`costs.c`), in a process that joins the
//! session.

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
use integration_tests::foreign::Workplace;

const COSTS: &str = include_str!("costs.c");

/// All figures of observed programs, and of the interface for C.
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

/// The costs of the functions, without and with a session.
fn costs(report: &mut Report) -> Result<()> {
    let session = Session::builder()
        .memory_limit(ByteLimit::new(256 << 20))
        .start()?;
    let environment = session.environment()?;
    let place = Workplace::new()?;
    let options = place.install_agent()?;
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.push("-O2");
    let program = place.compile("costs", COSTS, &options)?;
    for names in [&[][..], &environment] {
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
