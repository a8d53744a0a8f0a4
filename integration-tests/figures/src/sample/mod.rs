//! Group `sample`: the cost of sampling for the sampled threads, and how many stacks are complete.
//!
//! One file per question: `held` (how long a thread is held), `cost` (what a thread loses, what the
//! sampler itself takes), `truth` (whether weights, numbers and shares are right), `idle` (the cost
//! of threads that wait), `peers` and `perf` (the same work under `pprof` and `perf`), `right`
//! (stacks followed to their end, in Rust, the C library, and C without frame pointers), `waits`
//! (stacks of waiting threads, compared with those that another tool finds). The group `host`
//! measures how many waiting calls are interrupted. `session` runs a thread beside the sampler and
//! reads its samples.

mod cost;
mod held;
mod idle;
mod peers;
mod perf;
mod right;
mod session;
mod truth;
mod waits;

use integration_tests::figure::Report;

pub(crate) use idle::measure as measure_idle;
pub(crate) use peers::work;
pub(crate) use truth::measure as measure_truth;
pub(crate) use waits::{ROLES, measure as measure_waits};

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    held::measure(report)?;
    cost::measure(report)?;
    truth::measure(report)?;
    idle::measure(report)?;
    peers::measure(report)?;
    right::measure(report)?;
    crate::host::measure_interrupted(report)?;
    waits::measure(report)
}
