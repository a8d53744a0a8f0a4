//! The byte limit under flood: the true bytes of all pools, sampled while everybody records as
//! fast as the machine lets them.
//!
//! The bytes are what the system says the pools occupy (`fstat`), not what anybody booked. A sweep over
//! the pools is not one instant: memory that moves from one process to another during a sweep
//! could be counted twice, so a sweep that finds more than the limit is believed only if the same
//! pools, read once more in the opposite order, also hold more than the limit.

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
        let (peak, sweeps) = flood(children)?;
        let ratio = peak as f64 / LIMIT as f64;
        let enough = (sweeps < 1000).then(|| format!("only {sweeps} sweeps"));
        let name = format!("limit.peak_ratio.children_{children}");
        report.put(Figure::new(name, ratio, "x").promised(Promise::AtMost(1.0)).unless(enough));
    }
    Ok(())
}

/// Floods with so many children; the highest sum of true bytes, and how often it was looked at.
fn flood(children: usize) -> Result<(u64, u64)> {
    let session = Session::builder().memory_limit(LIMIT).start()?;
    let start = |number| workers::start(&session, &format!("flood {number}"), "flood", 0);
    let mut workers: Vec<Worker> = (0..children).map(start).collect::<Result<_>>()?;
    let (mut peak, mut sweeps) = (0, 0);
    #[allow(clippy::disallowed_methods)] // a stopwatch for the flood, not a timestamp
    let begin = Instant::now();
    while begin.elapsed() < FLOOD {
        peak = peak.max(believed(&session));
        sweeps += 1;
    }
    for worker in &mut workers {
        worker.child.wait();
    }
    Ok((peak, sweeps))
}

fn believed(session: &Session) -> u64 {
    let sweep = || session.processes().iter().map(|process| process.true_bytes).sum::<u64>();
    let first = sweep();
    if first <= LIMIT { first } else { first.min(sweep()) }
}
