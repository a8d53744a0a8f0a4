//! Group `faults`: what is lost when children are killed, how long a capture waits for those that stand
//! still, and what the profiler costs a host whose parent stands still, that forks, or that starts and
//! ends children all day.
//!
//! One file per question. Some need processes that do nothing else: this same program, started as
//! `figures --fault ROLE ARGUMENT…`, which is never called by hand.

mod churn;
mod fork;
mod kills;
mod parent;
mod stopped;

use std::process::{Command, ExitCode};

use anyhow::Result;
use integration_tests::kills::wild;

use crate::figure::Report;

/// The argument that makes this program one of the roles.
const FAULT: &str = "--fault";

/// Plays a role with these arguments.
type Role = fn(&[String]) -> Result<()>;

const ROLES: &[(&str, Role)] = &[
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

/// Plays a role, if the arguments say so.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    if let Some(code) = wild::run_if_asked() {
        return Some(code);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (role, words) = words.strip_prefix(&[FAULT.to_owned()])?.split_first()?;
    let (_, play) = ROLES.iter().find(|(name, _)| name == role)?;
    Some(match play(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// This program in a role.
fn role(name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([FAULT, name]);
    Ok(command)
}

/// A number from the environment that makes a long figure shorter, or the figure's own.
fn at_length(variable: &str, full: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(full)
}
