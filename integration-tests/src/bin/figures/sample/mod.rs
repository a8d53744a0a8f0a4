//! Group `sample`: the cost of sampling for the sampled threads, and how many stacks are complete.
//!
//! One file per question: `held` (how long a thread is held), `cost` (what a thread loses, what the
//! sampler itself takes), `peers` (the same work under `pprof` and `perf`), `right` (stacks
//! followed to their end, in Rust, the C library, and C without frame pointers), `waits` (stacks of
//! waiting threads, compared with those that another tool finds). `session` runs a thread beside
//! the sampler and reads its samples.

mod cost;
mod held;
mod peers;
mod right;
mod session;
mod waits;

use integration_tests::figure::Report;

pub(crate) use peers::work;
pub(crate) use waits::{ROLES, measure as measure_waits};

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    held::measure(report)?;
    cost::measure(report)?;
    peers::measure(report)?;
    right::measure(report)?;
    waits::measure(report)
}
