//! `flood.span_spread_ratio…`: shortest ÷ longest span of time kept, over children that record at
//! steady rates and together far more than the limit holds.
//!
//! Recording is paused in all processes at the same moment, and a capture shows the span of each
//! process. The figure is the median of several such readings.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::profile::Profile;
use profiler_parent::Session;

use crate::workers::{self, Worker};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::median;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
/// Time until all shares are settled.
const SETTLE: Duration = Duration::from_secs(6);
/// Time between two readings, in which the limit is filled several times.
const BETWEEN: Duration = Duration::from_secs(2);
const READINGS: usize = 5;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let equal = spread(&[8 * MIB; 8])?;
    put(
        report,
        "flood.span_spread_ratio",
        &equal,
        Promise::AtLeast(0.8),
    );
    let rates: Vec<u64> = (0..8).map(|power| MIB << power).collect();
    let doubling = spread(&rates)?;
    // The plain model of the rule gives 0.36 to 0.53, because all of its chunks have 64 KiB.
    put(
        report,
        "flood.span_spread_ratio.rates_1_to_128",
        &doubling,
        Promise::AtLeast(0.6),
    );
    Ok(())
}

/// The result of one reading.
struct Reading {
    spans: Vec<f64>,
    /// Dropped entries as a part of all entries. Entries dropped because of the pause do not count.
    dropped: f64,
}

impl Reading {
    fn ratio(&self) -> f64 {
        let longest = self.spans.iter().copied().fold(0.0, f64::max);
        self.spans.iter().copied().fold(f64::MAX, f64::min) / longest
    }
}

fn put(report: &mut Report, name: &str, readings: &[Reading], promise: Promise) {
    let ratios: Vec<f64> = readings.iter().map(Reading::ratio).collect();
    if let Some(last) = readings.last() {
        eprintln!(
            "{name}: {ratios:.2?}, spans in ms {:.0?}, dropped {:.4}",
            last.spans, last.dropped
        );
    }
    report.put(Figure::new(name, median(&ratios), "x").promised(promise));
}

fn spread(rates: &[u64]) -> Result<Vec<Reading>> {
    let session = workers::quiet_session(LIMIT)?;
    let start = |(number, rate): (usize, &u64)| {
        workers::start(&session, &format!("{number}"), "pace", *rate)
    };
    let mut workers: Vec<Worker> = rates.iter().enumerate().map(start).collect::<Result<_>>()?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("profile.json");
    std::thread::sleep(SETTLE - BETWEEN);
    let mut readings = Vec::new();
    for _ in 0..READINGS {
        std::thread::sleep(BETWEEN);
        session.pause();
        readings.push(read(&session, &path, rates.len())?);
        session.resume();
    }
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(readings)
}

fn read(session: &Session, path: &Path, count: usize) -> Result<Reading> {
    session
        .capture()
        .format(profiler_parent::Format::Gecko)
        .save(path)
        .context("cannot capture")?;
    let profile = Profile::read(path)?;
    let mut spans = Vec::new();
    let mut recorded = 0;
    let mut dropped = 0;
    for number in 0..count {
        let process = profile.process(&number.to_string())?;
        let counts = process.counts()?;
        spans.push(process.span());
        recorded += counts.recorded;
        let paused = counts.reasons.get("paused").copied().unwrap_or(0);
        dropped += counts.dropped.saturating_sub(paused);
    }
    Ok(Reading {
        spans,
        dropped: dropped as f64 / recorded.max(1) as f64,
    })
}
