//! Group `faults`: what is lost when children are killed, how long a capture waits for those that stand
//! still, and what the profiler costs a host whose parent stands still, that forks, or that starts and
//! ends children all day.
//!
//! One file per question. Roles of this program (`roles`) are processes that do nothing else.

mod churn;
mod fork;
mod kills;
mod parent;
mod stopped;

use anyhow::Result;

use crate::figure::Report;
use crate::roles::Role;

pub(crate) const ROLES: &[(&str, Role)] = &[
    ("parent", parent::play_parent),
    ("recorder", parent::play_recorder),
    ("forker", fork::play_forker),
    ("session", churn::play_session),
    ("brief", churn::play_brief),
];

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    kills::measure(report)?;
    stopped::measure(report)?;
    fork::measure(report)?;
    churn::measure(report)?;
    parent::measure(report)
}

/// A number from the environment that makes a long figure shorter, or the figure's own.
fn at_length(variable: &str, full: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(full)
}
