//! `flood.quiet_reply_ms.p99`: how long children take to confirm a control request while one of
//! them records at full speed.
//!
//! The request is `WaitOnePeriodicSampling`, which changes nothing and is confirmed by the child's
//! control thread. The measured time ends when the last child has confirmed, including the flooding
//! one, so no quiet child took longer.

use anyhow::{Result, bail};
use profiler_parent::Session;

use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{median, ns_of};

const QUIET: usize = 8;
const ROUNDS: usize = 300;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(64 << 20)?;
    let mut workers = workers::start_all(&session, QUIET, "quiet", "init", |_| 0)?;
    workers.push(workers::start(&session, "flood", "flood", 0)?);
    let mut times = (0..ROUNDS)
        .map(|_| round(&session))
        .collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    let p99 = times.get(ROUNDS * 99 / 100).copied().unwrap_or(f64::NAN);
    report.put(Figure::new(
        "flood.quiet_reply_ms.median",
        median(&times),
        "ms",
    ));
    report.put(Figure::new("flood.quiet_reply_ms.p99", p99, "ms").promised(Promise::AtMost(100.0)));
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(())
}

/// Returns the milliseconds until all children have confirmed.
fn round(session: &Session) -> Result<f64> {
    let mut silent = 0;
    let took = ns_of(|| silent = session.wait_one_periodic_sampling().unconfirmed()) / 1e6;
    std::thread::sleep(std::time::Duration::from_millis(5));
    if silent > 0 {
        bail!("{silent} children did not confirm within a second");
    }
    Ok(took)
}
