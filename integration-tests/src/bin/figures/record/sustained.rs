//! Recording without a pause into memory that was never touched before.
//!
//! A fresh session, twice as large as what is recorded, so no chunk is used again and every page is new.
//! The promise includes that the pages were made ready by the profiler's own thread, and that
//! it kept up: entries that found no chunk are counted and shown.

use profiler_core::reader::Snapshot;

use super::kinds::instant;
use crate::figure::{Figure, Promise, Report};
use crate::measure::{clock_read_ns, cores, median, ns_of, pin_to};
use crate::recording::{Recording, objection};

const RECORDED: u64 = 256 << 20;
const LIMIT: u64 = 2 * RECORDED;
/// Bytes of an instant marker.
const ENTRY: u64 = 16;
const ENTRIES: u64 = RECORDED / ENTRY;
const RUNS: usize = 5;

/// One run's result.
struct Run {
    ratio: f64,
    dropped: f64,
    objection: Option<String>,
}

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runs = (0..RUNS).map(|_| run()).collect::<anyhow::Result<Vec<Run>>>()?;
    let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<f64>>());
    // Half of the runs must be valid, as half of them are what the median stands for.
    let objections: Vec<&String> = runs.iter().filter_map(|run| run.objection.as_ref()).collect();
    let objection = objections.first().filter(|_| objections.len() > RUNS / 2).map(|why| (*why).clone());
    let ratio = Figure::new("record.sustained.ratio", of(|run| run.ratio), "x clock.read");
    report.put(ratio.promised(Promise::AtMost(2.0)).unless(objection));
    let dropped = Figure::new("record.sustained.dropped", of(|run| run.dropped), "entries");
    report.put(dropped.promised(Promise::AtMost(ENTRIES as f64 / 1000.0)));
    Ok(())
}

fn run() -> anyhow::Result<Run> {
    let recording = Recording::start(LIMIT)?;
    let (clock, entry) = {
        let _pinned = cores().first().map(|core| pin_to(*core));
        let clock = clock_read_ns(1_000_000);
        (clock, ns_of(|| (0..ENTRIES).for_each(|_| instant())) / ENTRIES as f64)
    };
    let snapshot = recording.snapshot()?;
    let counts = snapshot.counts();
    let objection = objection(&counts, ENTRIES).or_else(|| reuse(&snapshot));
    Ok(Run { ratio: entry / clock, dropped: counts.dropped.total() as f64, objection })
}

/// Recorded into memory that was used before, after all?
fn reuse(snapshot: &Snapshot) -> Option<String> {
    let evicted = snapshot.counts().evicted;
    (evicted > 0).then(|| format!("{evicted} entries were evicted, so memory was used again"))
}
