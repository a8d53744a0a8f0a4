//! The byte limit under flood: the true bytes of all pools, sampled while everybody records as
//! fast as the machine lets them.
//!
//! The bytes are what the system says the pools occupy (`fstat`), not what anybody booked. A sweep over
//! the pools is not one instant: memory that moves from one process to another during a sweep
//! could be counted twice, so a sweep that finds more than the limit is believed only if a second one,
//! right behind it, does too. How many were doubted so is printed beside the ratio.

use std::time::{Duration, Instant};

use anyhow::Result;
use profiler_parent::Session;

use crate::figure::{Figure, Promise, Report};
use crate::workers::{self, Worker};

const LIMIT: u64 = 8 << 20;
const FLOOD: Duration = Duration::from_secs(4);

/// `limit.peak_ratio.children_N`: highest true bytes ÷ limit.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for children in [1, 8, 32] {
        let Flood { peak, sweeps, doubted } = flood(children)?;
        let ratio = peak as f64 / LIMIT as f64;
        let enough = (sweeps < 1000).then(|| format!("only {sweeps} sweeps"));
        let name = format!("limit.peak_ratio.children_{children}");
        report.put(Figure::new(name, ratio, "x").promised(Promise::AtMost(1.0)).unless(enough));
        report.put(Figure::new(format!("limit.doubted.children_{children}"), doubted as f64, "sweeps"));
    }
    Ok(())
}

/// What was seen during a flood.
struct Flood {
    /// Highest sum of true bytes.
    peak: u64,
    sweeps: u64,
    /// Sweeps that found more than the limit when the next one did not.
    doubted: u64,
}

/// Floods with so many children.
fn flood(children: usize) -> Result<Flood> {
    let session = Session::builder().memory_limit(LIMIT).start()?;
    let start = |number| workers::start(&session, &format!("flood {number}"), "flood", 0);
    let mut workers: Vec<Worker> = (0..children).map(start).collect::<Result<_>>()?;
    let mut seen = Flood { peak: 0, sweeps: 0, doubted: 0 };
    #[allow(clippy::disallowed_methods)] // a stopwatch for the flood, not a timestamp
    let begin = Instant::now();
    while begin.elapsed() < FLOOD {
        look(&session, &mut seen);
    }
    for worker in &mut workers {
        worker.child.wait();
    }
    Ok(seen)
}

fn look(session: &Session, seen: &mut Flood) {
    let sweep = || session.processes().iter().map(|process| process.true_bytes).sum::<u64>();
    let mut held = sweep();
    if held > LIMIT {
        held = held.min(sweep());
        seen.doubted += u64::from(held <= LIMIT);
    }
    seen.sweeps += 1;
    seen.peak = seen.peak.max(held);
}
