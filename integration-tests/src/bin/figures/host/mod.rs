//! Group `host`: what the profiler may never do to the process that it is in.
//!
//! One file per question. Processes that do nothing else are roles of this program (`roles`).

mod clients;
mod exits;
mod interrupted;
mod locks;
mod reloads;
mod stacks;
mod symbols;

use anyhow::Result;

use crate::figure::Report;
use crate::roles::Role;

pub(crate) const ROLES: &[(&str, Role)] =
    &[("interrupted", interrupted::play_scene), ("reloads", reloads::play_reloads)];

/// Measures the group.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    locks::measure(report)?;
    exits::measure(report)?;
    interrupted::measure(report)?;
    stacks::measure(report)?;
    reloads::measure(report)?;
    symbols::measure(report)?;
    clients::measure(report)
}
