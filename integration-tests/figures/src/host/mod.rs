//! Group `host`: harm that the profiler must never do to its process.
//!
//! One file per question. Roles of this program (`roles`) are processes that do nothing else.

mod clients;
mod exits;
mod interrupted;
mod locks;
mod reloads;
mod stacks;
mod symbols;

use anyhow::Result;

use crate::roles::Role;
use integration_tests::figure::Report;

pub(crate) use interrupted::measure_default as measure_interrupted;

pub(crate) const ROLES: &[(&str, Role)] = &[
    ("exiter", exits::play),
    ("idle-child", locks::play_idle),
    ("interrupted", interrupted::play_scene),
    ("lock-holder", locks::play_holder),
    ("reloads", reloads::play_reloads),
    (stacks::ROLE, stacks::record),
    (symbols::PARENT, symbols::parent),
];

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
