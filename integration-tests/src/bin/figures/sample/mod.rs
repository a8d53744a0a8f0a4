//! Group `sample`: what sampling costs the threads that are sampled, and how often it is right.
//!
//! One file per question: `cost` (how long a thread is held, what it loses, what the sampler itself takes),
//! `peers` (the same work under `pprof` and `perf`), `right` (stacks followed to their end, in Rust, the C library, and C without frame pointers). `session` runs
//! a thread beside the sampler and reads its samples.

mod cost;
mod peers;
mod right;
mod session;

use crate::figure::Report;

pub(crate) use peers::work;

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    cost::measure(report)?;
    peers::measure(report)?;
    right::measure(report)
}
