//! The byte limit under full load: the true bytes of all pools, read while all children record at
//! full speed.
//!
//! `integration_tests::watch` describes how the pools are read.

use std::time::Duration;

use anyhow::Result;
use integration_tests::watch::Seen;

use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};

const LIMIT: u64 = 8 << 20;
const FLOOD: Duration = Duration::from_secs(4);

/// `limit.peak_ratio.children_N`: highest true bytes ÷ limit.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for children in [1, 8, 32] {
        let Seen {
            peak,
            sweeps,
            doubted,
        } = flood(children)?;
        let ratio = peak as f64 / LIMIT as f64;
        let idle = (peak < LIMIT / 2).then(|| format!("only {peak} bytes were ever held"));
        let enough = (sweeps < 1000)
            .then(|| format!("only {sweeps} sweeps"))
            .or(idle);
        let name = format!("limit.peak_ratio.children_{children}");
        report.put(
            Figure::new(name, ratio, "x")
                .promised(Promise::AtMost(1.0))
                .unless(enough),
        );
        report.put(Figure::new(
            format!("limit.doubted.children_{children}"),
            doubted as f64,
            "sweeps",
        ));
    }
    Ok(())
}

/// Reads the pools while `children` children record at full speed.
fn flood(children: usize) -> Result<Seen> {
    let session = workers::quiet_session(LIMIT)?;
    let mut workers = workers::start_all(&session, children, "flood", "flood", |_| 0)?;
    let mut seen = Seen::default();
    seen.look_for(FLOOD, &session, LIMIT);
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(seen)
}
