//! Group `faults`: what is lost when children are killed, how long a capture waits for stopped
//! children, and what the profiler costs a host whose parent is stopped, that forks, or that starts
//! and ends many children.
//!
//! One file per question. Some of the processes are roles of this program (`roles`).

mod churn;
mod fork;
mod kills;
mod parent;
mod stopped;

use anyhow::Result;

use crate::roles::Role;
use integration_tests::figure::Report;

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

/// Returns the length of a long figure: the number in an environment variable, or else `full`.
pub(crate) fn at_length(variable: &str, full: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(full)
}
