//! Processes that the program has left running: servers in the background, daemons.
//!
//! Used by `record` after the end of the program. The session goes on until the command ends, so a
//! profile that is written now has such a process up to this instant. The command says so, or waits
//! for the end of these processes.

use std::time::Duration;

use profiler_parent::{ProcessReport, ProcessState, Session};

use super::stop::Stopping;
use super::unprofiled::runs;
use crate::console::tell;
use crate::plain::plain;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// The looks before a process counts as left: others often end with the program.
const LOOKS: u32 = 5;
/// The most names in a message.
const MAX_NAMES: usize = 3;

/// Waits for the recorded processes that still run, if `waits`, until a signal ends that. Otherwise
/// names them.
pub(super) fn wait(session: &Session, waits: bool, stopping: &Stopping) {
    let Some(left) = left_running(session) else {
        return;
    };
    if !waits {
        tell(&format!(
            "profiler: {left}: the profile has them up to now; with --wait, `profiler record` waits for \
             their end"
        ));
        return;
    }
    tell(&format!(
        "profiler: {left}; waiting for their end (Ctrl-C ends the waiting)"
    ));
    stopping.is_waiting();
    while stopping.still_waits() && of(&session.present_processes()).is_some() {
        std::thread::sleep(PAUSE);
    }
}

/// The sentence about the processes that do not end with the program.
fn left_running(session: &Session) -> Option<String> {
    for _ in 0..LOOKS {
        of(&session.present_processes())?;
        std::thread::sleep(PAUSE);
    }
    of(&session.present_processes())
}

/// The sentence about the recorded processes that run. `None` if there are none.
fn of(processes: &[ProcessReport]) -> Option<String> {
    // The first one is this process.
    let running = processes.iter().skip(1).filter(|process| {
        let is_known_to_end = matches!(
            process.state,
            ProcessState::Parent | ProcessState::Executed | ProcessState::Exited(_)
        );
        !is_known_to_end && process.unprofiled.is_none() && runs(process.pid)
    });
    let names: Vec<String> = running
        .map(|process| format!("{} ({})", plain(&process.name), process.pid))
        .collect();
    let first = names.get(..names.len().min(MAX_NAMES))?.join(", ");
    let further = names.len().saturating_sub(MAX_NAMES);
    match (names.len(), further) {
        (0, _) => None,
        (1, _) => Some(format!("one process still runs, {first}")),
        (all, 0) => Some(format!("{all} processes still run, {first}")),
        (all, further) => Some(format!(
            "{all} processes still run, {first} and {further} more"
        )),
    }
}
