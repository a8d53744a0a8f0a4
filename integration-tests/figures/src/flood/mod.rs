//! Group `flood`: whether the limit holds, how much of it each process keeps, and how fast
//! processes answer, while processes record at full speed.
//!
//! One file per question: [`peak`], [`spans`], [`reply`], [`burst`], and [`simulated`] for more
//! processes than a machine can run.

mod burst;
mod peak;
mod reply;
mod simulated;
mod spans;

use anyhow::Result;

use integration_tests::figure::Report;

/// All figures of the flood.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    simulated::measure(report);
    peak::measure(report)?;
    reply::measure(report)?;
    burst::measure(report)?;
    spans::measure(report)
}
