//! Group `diff`: how fast `profiler diff` compares two profiles, in megabytes of both profiles per
//! second.
//!
//! Both profiles are that of the group `export`: 800,000 samples of eight threads. The command is
//! run as a user runs it, from its start to its exit: once with the table alone, and once with the
//! flame graph, too.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use integration_tests::figure::{Figure, Report};
use integration_tests::measure::median;

use super::export::write_profile;

const RUNS: usize = 5;

/// All figures of comparisons.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("profile.json");
    write_profile(&profile)?;
    let megabytes = 2.0 * std::fs::metadata(&profile)?.len() as f64 / 1e6;
    let page = directory.path().join("diff.html");
    let page = page.to_str().context("no text")?;
    for (name, options) in [
        ("diff.mb_s", &[][..]),
        ("diff.html.mb_s", &["--html", page]),
    ] {
        let mut seconds = Vec::new();
        for _ in 0..RUNS {
            seconds.push(timed(&profile, options)?);
        }
        report.put(Figure::new(name, megabytes / median(&seconds), "MB/s"));
    }
    Ok(())
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn timed(profile: &Path, options: &[&str]) -> Result<f64> {
    let own = std::env::current_exe()?;
    let command = own.with_file_name("profiler");
    ensure!(
        command.exists(),
        "not built: cargo build --release -p profiler-cli"
    );
    let begin = Instant::now();
    let mut diff = Command::new(command);
    diff.arg("diff").args([profile, profile]).args(options);
    let status = diff.stdout(Stdio::null()).status()?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "profiler diff: {status}");
    Ok(seconds)
}
