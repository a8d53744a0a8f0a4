//! Continuous recording into memory that was never touched before.
//!
//! The session is new and twice as large as the recorded entries, so no chunk is reused and every
//! page is new. The promise includes that the profiler's own thread prepares the pages and keeps
//! up. Entries that found no chunk are counted and reported.
//!
//! A run is too long to be undisturbed on a loaded machine, so the figure is the thread's own
//! processor time, including page faults. A run in which the thread waited is not valid.

use profiler_core::internal::reader::Snapshot;

use super::kinds::instant;
use crate::recording::{Recording, objection};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{clock_read_ns, cores, cpu_ns_of, median, pin_to};

const RECORDED: u64 = 256 << 20;
const LIMIT: u64 = 2 * RECORDED;
/// Bytes of an instant marker.
const ENTRY: u64 = 16;
const ENTRIES: u64 = RECORDED / ENTRY;
const RUNS: usize = 5;

/// The result of one run.
struct Run {
    ratio: f64,
    dropped: f64,
    objection: Option<String>,
}

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runs = (0..RUNS)
        .map(|_| run())
        .collect::<anyhow::Result<Vec<Run>>>()?;
    let valid = || runs.iter().filter(|run| run.objection.is_none());
    let median_of = |value: fn(&Run) -> f64| median(&valid().map(value).collect::<Vec<f64>>());
    // The median is taken over the valid runs. It is valid if more than half of the runs are.
    let objections: Vec<&String> = runs
        .iter()
        .filter_map(|run| run.objection.as_ref())
        .collect();
    let objection = objections
        .first()
        .filter(|_| objections.len() > RUNS / 2)
        .map(|why| (*why).clone());
    let ratio = Figure::new(
        "record.sustained.ratio",
        median_of(|run| run.ratio),
        "x clock.read",
    );
    report.put(ratio.promised(Promise::AtMost(2.0)).unless(objection));
    let dropped = Figure::new(
        "record.sustained.dropped",
        median_of(|run| run.dropped),
        "entries",
    );
    report.put(dropped.promised(Promise::AtMost(ENTRIES as f64 / 1000.0)));
    Ok(())
}

fn run() -> anyhow::Result<Run> {
    let recording = Recording::start(LIMIT)?;
    let (clock, (all, waits)) = {
        let _pinned = cores().first().map(|core| pin_to(*core));
        let clock: Vec<f64> = (0..101).map(|_| clock_read_ns(10_000)).collect();
        (
            median(&clock),
            cpu_ns_of(|| (0..ENTRIES).for_each(|_| instant())),
        )
    };
    let snapshot = recording.snapshot()?;
    let counts = snapshot.counts();
    let waited = (waits > 0).then(|| format!("the thread waited {waits} times"));
    let objection = objection(&counts, ENTRIES)
        .or_else(|| reuse(&snapshot))
        .or(waited);
    Ok(Run {
        ratio: all / ENTRIES as f64 / clock,
        dropped: counts.dropped.total() as f64,
        objection,
    })
}

/// Returns an objection if memory was reused.
fn reuse(snapshot: &Snapshot) -> Option<String> {
    let evicted = snapshot.counts().evicted;
    (evicted > 0).then(|| format!("{evicted} entries were evicted, so memory was used again"))
}
