//! Group `merge`: how long merging two profiles takes, compared with reading both.
//!
//! Both profiles are that of the group `export`: 800,000 samples of eight threads. Reading is what
//! every export does before it writes: two passes, all samples and markers. The two are measured in
//! turn, so a change of the machine's speed concerns both. The merged profile is not compressed,
//! because compression takes the same time for any output.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use profiler_merge::{MergeInput, merge};
use profiler_reader::{ProfileReader, ReadError, Survey, Thread, ThreadSink, Wanted};

use integration_tests::figure::{Figure, Report};
use integration_tests::measure::median;

use super::export::{SAMPLES, THREADS, write_profile};

const RUNS: usize = 5;

/// All figures of merging.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let inputs = ["one.json", "other.json"].map(|name| directory.path().join(name));
    for input in &inputs {
        write_profile(input)?;
    }
    let megabytes = 2.0 * std::fs::metadata(&inputs[0])?.len() as f64 / 1e6;
    let to = directory.path().join("merged.json");
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let mut reading = 0.0;
        for input in &inputs {
            reading += timed_reading(input)?;
        }
        let merging = timed_merge(&inputs, &to)?;
        ratios.push(merging / reading);
        rates.push(megabytes / merging);
    }
    report.put(Figure::new("merge.to_read", median(&ratios), "x"));
    report.put(Figure::new("merge.mb_s", median(&rates), "MB/s"));
    Ok(())
}

/// Counts samples and markers.
#[derive(Default)]
struct Count {
    samples: u64,
    markers: u64,
}

impl ThreadSink for Count {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ReadError> {
        self.samples += thread.nodes.len() as u64;
        self.markers += thread.markers().count() as u64;
        Ok(())
    }
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn timed_reading(input: &Path) -> Result<f64> {
    let begin = Instant::now();
    let reader = ProfileReader::open(input, Wanted::default())?;
    let mut count = Count::default();
    reader.threads(&mut count)?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(count.samples == THREADS * SAMPLES && count.markers > 0);
    Ok(seconds)
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn timed_merge(inputs: &[std::path::PathBuf], to: &Path) -> Result<f64> {
    let inputs: Vec<_> = inputs.iter().map(MergeInput::new).collect();
    let begin = Instant::now();
    let merged = merge(&inputs, &[], to)?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(merged.counts.samples == 2 * THREADS * SAMPLES);
    Ok(seconds)
}
