//! For how long the handler of an observed program interrupts its thread.
//!
//! The program runs with the library, and this process reads its file, which contains the time of
//! each sample in the handler.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_observed::file::ObservedFile;
use profiler_observed::{LIBRARY, Observation, VARIABLE};

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;

/// Runs busy threads for some seconds.
const BUSY: &str = include_str!("busy.c");
/// The fewest samples of which the slowest 1 % say anything.
const LEAST_SAMPLES: usize = 1000;

/// The median, and the time that 99 % of the samples do not exceed.
pub(super) fn measure(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
    let program = place.compile("busy", BUSY, &["-O2", "-pthread"])?;
    let files = place.path().join("files");
    fs::create_dir(&files)?;
    let library = place.path().join("library.so");
    fs::write(&library, LIBRARY)?;
    let mut held = held_ns(&program, &library, &files)?;
    ensure!(held.len() >= LEAST_SAMPLES, "{} samples", held.len());
    held.sort_unstable();
    let at = |percent: usize| held.get(held.len() * percent / 100);
    let us = |ns: Option<&u32>| ns.map(|ns| f64::from(*ns) / 1e3);
    let (median, slowest) = us(at(50)).zip(us(at(99))).context("no samples")?;
    report.put(Figure::new("agent.held_us.median", median, "us"));
    report.put(Figure::new("agent.held_us.p99", slowest, "us").promised(Promise::AtMost(50.0)));
    Ok(())
}

/// The nanoseconds in the handler of each sample of a run.
fn held_ns(program: &Path, library: &Path, files: &Path) -> Result<Vec<u32>> {
    let observation = Observation {
        directory: files,
        signal: 61,
        interval_ns: 1_000_000,
        uses_cycle_counter: false, // the unit of the times is a nanosecond then
        records_crashes: false,
    };
    let value = observation.value().context("a path that is too long")?;
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library).env(VARIABLE, value);
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let mut open: BTreeMap<PathBuf, ObservedFile> = BTreeMap::new();
    let mut held = Vec::new();
    loop {
        let has_ended = child.try_wait()?.is_some();
        for entry in fs::read_dir(files)? {
            let path = entry?.path();
            if !open.contains_key(&path)
                && let Ok(mut file) = ObservedFile::open(&path)
            {
                file.grant(15)?;
                open.insert(path, file);
            }
        }
        for file in open.values_mut() {
            file.drain(|head, _| held.push(head.held))?;
        }
        if has_ended {
            return Ok(held);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
