//! Group `open`: what a large profile costs to write, to keep and to open, in both formats.
//!
//! Eight processes record 300,000 samples and 200,000 markers each, by the recording interface; nothing else samples.
//! At full length (`FIGURES_FULL=1`); otherwise a twentieth of it, and `format.scale` says so. Each file is
//! saved and opened [`RUNS`] times, one format after the other, so that both see the same machine.
//!
//! `load_s` is the real viewer's loader, without its start, which `format.loader_start_s` is: the same loader with a profile in
//! which nothing was recorded. It needs `npm ci` in `integration-tests/viewer`.

mod record;
mod viewer;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureReport, Format, Session};

use crate::figure::{Figure, Report};
use crate::measure::median;
use crate::workers::{self, Worker};

pub(crate) use record::record;

const PROCESSES: u64 = 8;
/// Of each process, at full length.
const SAMPLES: u64 = 300_000;
const MARKERS: u64 = 200_000;
/// What is done where the time is short.
const SHORT: u64 = 20;
/// Whether all is measured at full length.
const FULL: &str = "FIGURES_FULL";
const RUNS: usize = 3;
const FORMATS: [(&str, Format); 2] = [("gecko", Format::Gecko), ("processed", Format::Processed)];

/// All figures of the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let part = if std::env::var(FULL).is_ok_and(|value| value == "1") { 1 } else { SHORT };
    let directory = tempfile::tempdir()?;
    let features = Features::STACK_WALK.with(Features::CPU).with(Features::NO_SAMPLING);
    let session = Session::builder().name("figures").features(features).memory_limit(4 << 30).start()?;
    let empty = directory.path().join("empty.json.gz");
    session.capture().save(&empty)?;
    let start = |number| workers::start(&session, &format!("worker {number}"), "open", part);
    let mut workers: Vec<Worker> = (0..PROCESSES).map(start).collect::<Result<_>>()?;
    report.put(Figure::new("format.scale", 1.0 / part as f64, "of 2.4 M samples, 1.6 M markers"));
    let mut both = FORMATS.map(|(name, _)| Measured { name, ..Measured::default() });
    let mut starts = Vec::new();
    for run in 0..RUNS {
        for (measured, (name, format)) in both.iter_mut().zip(FORMATS) {
            let path = directory.path().join(format!("{name}.{run}.json.gz"));
            measured.write(&session, format, &path, part)?;
        }
        starts.push(viewer::load(&empty, None));
        for (measured, (name, _)) in both.iter_mut().zip(FORMATS) {
            let path = directory.path().join(format!("{name}.{run}.json.gz"));
            measured.load.push(viewer::load(&path, Some(PROCESSES * SAMPLES / part)));
            std::fs::remove_file(path)?;
        }
    }
    drop(session);
    workers.iter_mut().for_each(|worker| _ = worker.child.wait());
    put(report, &both, starts);
    Ok(())
}

/// What one format came to.
#[derive(Default)]
struct Measured {
    name: &'static str,
    write: Vec<f64>,
    mib: f64,
    load: Vec<Result<f64>>,
}

impl Measured {
    fn write(&mut self, session: &Session, format: Format, path: &Path, part: u64) -> Result<()> {
        #[allow(clippy::disallowed_methods)] // a stopwatch around the capture
        let start = Instant::now();
        let report = session.capture().format(format).save(path)?;
        self.write.push(start.elapsed().as_secs_f64());
        self.mib = report.bytes as f64 / f64::from(1 << 20);
        is_whole(&report, part)
    }
}

/// All entries of all workers are in the file: otherwise it is another file than the one that was meant.
fn is_whole(report: &CaptureReport, part: u64) -> Result<()> {
    for process in report.processes.iter().filter(|process| process.name.starts_with("worker")) {
        let (delivered, expected) = (process.counts.delivered, (SAMPLES + MARKERS) / part);
        ensure!(delivered >= expected, "{}: {delivered} of {expected} entries", process.name);
    }
    Ok(())
}

fn put(report: &mut Report, both: &[Measured], starts: Vec<Result<f64>>) {
    let start = middle(starts);
    let loads: Vec<_> = both
        .iter()
        .map(|measured| (measured.name, &measured.load))
        .map(|(name, load)| {
            let seconds = load.iter().filter_map(|seconds| seconds.as_ref().ok().copied()).collect::<Vec<_>>();
            let failure = load.iter().find_map(|seconds| seconds.as_ref().err().map(|error| format!("{error:#}")));
            (name, median(&seconds), failure)
        })
        .collect();
    let (start_s, not_started) = match start {
        Ok(seconds) => (seconds, None),
        Err(error) => (f64::NAN, Some(format!("{error:#}"))),
    };
    for (measured, (name, load, failure)) in both.iter().zip(&loads) {
        report.put(Figure::new(format!("format.{name}.write_s"), median(&measured.write), "s"));
        report.put(Figure::new(format!("format.{name}.mib_gz"), measured.mib, "MiB"));
        let figure = Figure::new(format!("format.{name}.load_s"), load - start_s, "s");
        report.put(figure.unless(failure.clone()).unless(not_started.clone()));
    }
    report.put(Figure::new("format.loader_start_s", start_s, "s").unless(not_started));
    if let [(_, gecko, _), (_, processed, _)] = &loads[..] {
        let times = (gecko - start_s) / (processed - start_s);
        report.put(Figure::new("format.processed.load_gain", times, "x gecko's time"));
    }
}

fn middle(values: Vec<Result<f64>>) -> Result<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Result<_>>().context("the viewer")?;
    Ok(median(&values))
}
