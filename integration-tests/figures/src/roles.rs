//! Processes that do one thing for a figure: this program, started as `figures --role NAME
//! ARGUMENT…`. Internal.

use std::process::{Command, ExitCode};

use anyhow::Result;
use integration_tests::kills::wild;

use crate::{always_on, faults, host, push, sample};

/// The argument that makes this program a role. The role's name follows it.
const ROLE: &str = "--role";

/// The function of a role, which takes the role's arguments.
pub(crate) type Role = fn(&[String]) -> Result<()>;

/// Plays a role if the arguments name one.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    if let Some(code) = wild::run_if_asked() {
        return Some(code);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (role, words) = words.strip_prefix(&[ROLE.to_owned()])?.split_first()?;
    let (_, play) = faults::ROLES
        .iter()
        .chain(host::ROLES)
        .chain(sample::ROLES)
        .chain(always_on::ROLES)
        .chain(push::ROLES)
        .find(|(name, _)| name == role)?;
    Some(match play(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Returns the command that starts this program in a role.
pub(crate) fn role(name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([ROLE, name]);
    Ok(command)
}
