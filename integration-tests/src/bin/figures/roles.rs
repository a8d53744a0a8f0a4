//! Processes that do one thing for a figure: this same program, started as `figures --role NAME
//! ARGUMENT…`. Not for use by hand.

use std::process::{Command, ExitCode};

use anyhow::Result;
use integration_tests::kills::wild;

use crate::{faults, host};

/// The argument that makes this program one of the roles.
const ROLE: &str = "--role";

/// Plays a role with these arguments.
pub(crate) type Role = fn(&[String]) -> Result<()>;

/// Plays a role, if the arguments say so.
pub(crate) fn run_if_asked() -> Option<ExitCode> {
    if let Some(code) = wild::run_if_asked() {
        return Some(code);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (role, words) = words.strip_prefix(&[ROLE.to_owned()])?.split_first()?;
    let (_, play) = faults::ROLES.iter().chain(host::ROLES).find(|(name, _)| name == role)?;
    Some(match play(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{role}: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// This program in a role.
pub(crate) fn role(name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([ROLE, name]);
    Ok(command)
}
