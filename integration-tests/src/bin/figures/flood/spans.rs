//! `flood.span_spread_ratio…`: shortest ÷ longest span of time kept, over children that record at
//! steady rates and together far more than the limit holds.
//!
//! Recording is paused in all processes at one instant, and a capture says how far back each one
//! reaches. The median of several such looks counts.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::profile::Profile;
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;
use profiler_parent::core::session::Features;

use crate::figure::{Figure, Promise, Report};
use crate::measure::median;
use crate::workers::{self, Worker};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 64 * MIB;
/// Until everybody has the share that it will have.
const SETTLE: Duration = Duration::from_secs(6);
/// Between two looks; the limit is filled several times anew.
const BETWEEN: Duration = Duration::from_secs(2);
const LOOKS: usize = 5;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let equal = spread(&[8 * MIB; 8])?;
    put(report, "flood.span_spread_ratio", &equal, Promise::AtLeast(0.8));
    let rates: Vec<u64> = (0..8).map(|power| MIB << power).collect();
    let doubling = spread(&rates)?;
    // The plain model of the rule gives 0.36 to 0.53, because all its chunks are of 64 KiB.
    put(report, "flood.span_spread_ratio.rates_1_to_128", &doubling, Promise::AtLeast(0.6));
    Ok(())
}

/// What one look saw.
struct Look {
    spans: Vec<f64>,
    /// Part of all entries that were dropped.
    dropped: f64,
}

impl Look {
    fn ratio(&self) -> f64 {
        let longest = self.spans.iter().copied().fold(0.0, f64::max);
        self.spans.iter().copied().fold(f64::MAX, f64::min) / longest
    }
}

fn put(report: &mut Report, name: &str, looks: &[Look], promise: Promise) {
    let ratios: Vec<f64> = looks.iter().map(Look::ratio).collect();
    if let Some(last) = looks.last() {
        eprintln!("{name}: {ratios:.2?}, spans in ms {:.0?}, dropped {:.4}", last.spans, last.dropped);
    }
    report.put(Figure::new(name, median(&ratios), "x").promised(promise));
}

fn spread(rates: &[u64]) -> Result<Vec<Look>> {
    let session = Session::builder().features(Features::NONE).memory_limit(ByteLimit::new(LIMIT)).start()?;
    let start = |(number, rate): (usize, &u64)| workers::start(&session, &format!("{number}"), "pace", *rate);
    let mut workers: Vec<Worker> = rates.iter().enumerate().map(start).collect::<Result<_>>()?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("profile.json");
    std::thread::sleep(SETTLE - BETWEEN);
    let mut looks = Vec::new();
    for _ in 0..LOOKS {
        std::thread::sleep(BETWEEN);
        session.pause();
        looks.push(look(&session, &path, rates.len())?);
        session.resume();
    }
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(looks)
}

fn look(session: &Session, path: &Path, count: usize) -> Result<Look> {
    session.capture().format(profiler_parent::Format::Gecko).save(path).context("cannot capture")?;
    let profile = Profile::read(path)?;
    let (mut spans, mut recorded, mut dropped) = (Vec::new(), 0, 0);
    for number in 0..count {
        let process = profile.process(&number.to_string())?;
        let books = process.books()?;
        spans.push(process.span());
        recorded += books.recorded;
        let paused = books.reasons.get("paused").copied().unwrap_or(0);
        dropped += books.dropped.saturating_sub(paused);
    }
    Ok(Look { spans, dropped: dropped as f64 / recorded.max(1) as f64 })
}
