//! Recording without a pause into memory that was never touched before.
//!
//! A fresh session, twice as large as what is recorded, so no chunk is used again and every page is new.
//! The promise includes that the pages were made ready by the profiler's own thread, and that
//! it kept up: entries that found no chunk are counted and shown.
//!
//! A run is too long to go undisturbed on a busy machine, so the thread's own processor time is
//! taken, page faults included. A run in which the thread waited for anything is not valid.

use profiler_core::internal::reader::Snapshot;

use super::kinds::instant;
use crate::figure::{Figure, Promise, Report};
use crate::measure::{clock_read_ns, cores, cpu_ns_of, median, pin_to};
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
    let valid = || runs.iter().filter(|run| run.objection.is_none());
    let of = |value: fn(&Run) -> f64| median(&valid().map(value).collect::<Vec<f64>>());
    // The median is that of the valid runs, and more than half of the runs must be.
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
    let (clock, (all, waits)) = {
        let _pinned = cores().first().map(|core| pin_to(*core));
        let clock: Vec<f64> = (0..101).map(|_| clock_read_ns(10_000)).collect();
        (median(&clock), cpu_ns_of(|| (0..ENTRIES).for_each(|_| instant())))
    };
    let snapshot = recording.snapshot()?;
    let counts = snapshot.counts();
    let waited = (waits > 0).then(|| format!("the thread waited {waits} times"));
    let objection = objection(&counts, ENTRIES).or_else(|| reuse(&snapshot)).or(waited);
    Ok(Run { ratio: all / ENTRIES as f64 / clock, dropped: counts.dropped.total() as f64, objection })
}

/// Recorded into memory that was used before, after all?
fn reuse(snapshot: &Snapshot) -> Option<String> {
    let evicted = snapshot.counts().evicted;
    (evicted > 0).then(|| format!("{evicted} entries were evicted, so memory was used again"))
}
