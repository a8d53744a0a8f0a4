//! The flood: whether the limit holds, who keeps how much, and who is answered while it lasts.
//!
//! One file per question: [`peak`], [`spans`], [`reply`], and [`simulated`] for crowds that no machine
//! holds.

mod peak;
mod reply;
mod simulated;
mod spans;

use anyhow::Result;

use crate::figure::Report;

/// All figures of the flood.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    simulated::measure(report);
    peak::measure(report)?;
    reply::measure(report)?;
    spans::measure(report)
}
