//! Group `open`: the cost to write, to keep and to open a large profile, in both formats.
//!
//! Eight processes record 300,000 samples and 200,000 markers each, through the recording
//! interface; no sampler runs. That is the full length (`FIGURES_FULL=1`). The short length is a
//! twentieth of it, and `format.scale` states which one it is. Each file is saved [`RUNS`] times,
//! and then opened as often, in turn, so that both formats see the same state of the machine.
//!
//! `load_s` is the time of the real viewer's loader without its start. `format.loader_start_s` is
//! the time of its start: the same loader with a profile in which nothing was recorded. The loader
//! needs `npm ci` in `integration-tests/viewer`.

mod record;
mod viewer;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use profiler_core::ids::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureReport, Format, Session};

use crate::workers;
use integration_tests::figure::{Figure, Report};
use integration_tests::measure::median;

pub(crate) use record::record;

const PROCESSES: u64 = 8;
/// Samples of each process at full length.
const SAMPLES: u64 = 300_000;
/// Markers of each process at full length.
const MARKERS: u64 = 200_000;
/// The full length divided by the short length.
const SHORT: u64 = 20;
/// The variable that selects the full length.
const FULL: &str = "FIGURES_FULL";
const RUNS: usize = 3;
const FORMATS: [(&str, Format); 2] = [("gecko", Format::Gecko), ("processed", Format::Processed)];

/// All figures of the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let part = if std::env::var(FULL).is_ok_and(|value| value == "1") {
        1
    } else {
        SHORT
    };
    let directory = tempfile::tempdir()?;
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NO_SAMPLING);
    let session = Session::builder()
        .name("figures")
        .features(features)
        .memory_limit(ByteLimit::new(4 << 30))
        .start()?;
    let empty = directory.path().join("empty.json.gz");
    session.capture().save(&empty)?;
    let mut workers = workers::start_all(&session, PROCESSES, "worker", "open", |_| part)?;
    report.put(Figure::new(
        "format.scale",
        1.0 / part as f64,
        "of 2.4 M samples, 1.6 M markers",
    ));
    let files = FORMATS.map(|(name, _)| directory.path().join(format!("{name}.json.gz")));
    let mut written = FORMATS.map(|_| Vec::new());
    for _ in 0..RUNS {
        for ((written, path), (_, format)) in written.iter_mut().zip(&files).zip(FORMATS) {
            written.push(write(&session, format, path, part)?);
        }
    }
    drop(session);
    workers
        .iter_mut()
        .for_each(|worker| _ = worker.child.wait());
    for ((written, path), (name, _)) in written.iter().zip(&files).zip(FORMATS) {
        let mib = std::fs::metadata(path)?.len() as f64 / f64::from(1 << 20);
        report.put(Figure::new(
            format!("format.{name}.write_s"),
            median(written),
            "s",
        ));
        report.put(Figure::new(format!("format.{name}.mib_gz"), mib, "MiB"));
    }
    load(report, &empty, &files, PROCESSES * SAMPLES / part);
    Ok(())
}

/// Returns the seconds that a capture takes.
fn write(session: &Session, format: Format, path: &Path, part: u64) -> Result<f64> {
    #[allow(clippy::disallowed_methods)] // a stopwatch around the capture
    let start = Instant::now();
    let report = session.capture().format(format).save(path)?;
    let took = start.elapsed().as_secs_f64();
    is_whole(&report, part)?;
    Ok(took)
}

/// Fails if entries of a worker are missing in the file, because then it is not the file to
/// measure.
fn is_whole(report: &CaptureReport, part: u64) -> Result<()> {
    for process in report
        .processes
        .iter()
        .filter(|process| process.name.starts_with("worker"))
    {
        let delivered = process.counts.delivered;
        let expected = (SAMPLES + MARKERS) / part;
        ensure!(
            delivered >= expected,
            "{}: {delivered} of {expected} entries",
            process.name
        );
    }
    Ok(())
}

/// Reports the loader's figures. They are not valid if there is no loader, or if it finds a wrong
/// number of samples.
fn load(report: &mut Report, empty: &Path, files: &[PathBuf], samples: u64) {
    let mut starts = Vec::new();
    let mut loads = FORMATS.map(|_| Vec::new());
    let mut failure = None;
    for _ in 0..RUNS {
        let mut take = |into: &mut Vec<f64>, path: &Path, samples| match viewer::load(path, samples)
        {
            Ok(seconds) => into.push(seconds),
            Err(error) => failure = Some(format!("{error:#}")),
        };
        take(&mut starts, empty, None);
        for (loads, path) in loads.iter_mut().zip(files) {
            take(loads, path, Some(samples));
        }
    }
    let start = median(&starts);
    report.put(Figure::new("format.loader_start_s", start, "s").unless(failure.clone()));
    for (loads, (name, _)) in loads.iter().zip(FORMATS) {
        let figure = Figure::new(format!("format.{name}.load_s"), median(loads) - start, "s");
        report.put(figure.unless(failure.clone()));
    }
    let [gecko, processed] = loads.map(|loads| median(&loads) - start);
    report.put(
        Figure::new(
            "format.load_ratio",
            gecko / processed,
            "x: gecko by processed",
        )
        .unless(failure),
    );
}
