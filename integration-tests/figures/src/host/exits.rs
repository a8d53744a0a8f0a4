//! Counts processes that hang when they call `exit` in a signal handler. The process is a role of
//! this program that records, allocates and frees memory, and ends at a random moment in one of
//! four ways.

use anyhow::{Context, Result};
use integration_tests::exits::{self, Ends};
use profiler_parent::Session;

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

/// Processes for each of the four ways.
const RUNS: u64 = 50;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let session = Session::builder().name("exits").start()?;
    let command = |way: &str, run: u64| {
        let mut command = role("exiter")?;
        command.args([way, &run.to_string()]);
        Ok(command)
    };
    let ends = Ends::of(&session, RUNS, command)?;
    let too_few = (ends.runs < 200).then(|| format!("only {} processes", ends.runs));
    let hangs = Figure::new("host.exit_hangs", ends.hung as f64, "of 200");
    report.put(hangs.promised(Promise::AtMost(0.0)).unless(too_few));
    Ok(())
}

/// `exiter WAY RUN`.
pub(super) fn play(words: &[String]) -> Result<()> {
    let [way, run] = words else {
        anyhow::bail!("exiter WAY RUN")
    };
    exits::play(way, run.parse().context("which run?")?)
}
