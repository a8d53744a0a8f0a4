//! What a session and a capture report about the process with a name, and what all measure.
//!
//! Used by tests whose session has several processes.

use profiler_parent::groups::Probes;
use profiler_parent::{CaptureReport, CapturedProcess, ProcessReport, ProcessState, Session};

use crate::patience::until;

/// Returns the report of a session on a process.
///
/// # Panics
/// When there is none of that name.
pub fn report_of(session: &Session, name: &str) -> ProcessReport {
    let mut all = session.processes().into_iter();
    let found = all.find(|process| process.name == name);
    found.unwrap_or_else(|| panic!("no process {name}"))
}

/// Returns the state of a process.
///
/// # Panics
/// As [`report_of`].
pub fn state_of(session: &Session, name: &str) -> ProcessState {
    report_of(session, name).state
}

/// Returns the report of a capture on a process.
///
/// # Panics
/// When there is none of that name.
pub fn captured<'a>(report: &'a CaptureReport, name: &str) -> &'a CapturedProcess {
    let found = report.processes.iter().find(|process| process.name == name);
    found.unwrap_or_else(|| panic!("no process {name}"))
}

/// Waits until every process of a session measures exactly these probes. Returns `false` if one
/// does not.
pub fn all_measure(session: &Session, probes: Probes) -> bool {
    until(|| {
        let groups = session.groups();
        groups
            .processes
            .iter()
            .all(|process| process.probes == probes)
    })
}
