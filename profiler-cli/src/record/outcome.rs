//! What `profiler record` prints at its end.

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{CaptureReport, ProfiledChild, Session, Verdict};

use crate::console::tell;
use crate::plain::plain;

/// Whether a profile has something to say: entries of a process, or which session has them.
pub(super) fn is_worth_a_profile(session: &Session) -> bool {
    let is_elsewhere = || {
        session
            .processes()
            .iter()
            .any(|one| one.recorded_by.is_some())
    };
    session.recorded_by_children() > 0 || is_elsewhere()
}

/// Says why no profile was written.
pub(super) fn report_no_profile(session: &Session, child: &ProfiledChild, name: &str) {
    let name = plain(name);
    if let Some(why) = super::unprofiled::reason_of(session, child).filter(|_| child.is_profiled())
    {
        tell(&format!(
            "profiler: {name} recorded nothing: {why}. No profile was written"
        ));
    } else if child.has_begun() {
        tell(&format!(
            "profiler: {name} recorded nothing: it ended before its first entry. No profile was \
             written"
        ));
    } else if child.is_profiled() {
        tell(&format!(
            "profiler: {name} recorded nothing: it has a session of its own, could make no file for its \
             samples, or, with --no-agent, has not called the profiler. No profile was written"
        ));
    } else {
        tell(&format!(
            "profiler: {name} ran unprofiled: the memory limit is too small. No profile was written"
        ));
    }
}

/// Says where the profile is, and whether the program, with this process number, did not end
/// regularly.
pub(super) fn report_profile(report: &CaptureReport, program: ProcessId) {
    let path = report.path.display();
    let recorded: u64 = report
        .processes
        .iter()
        .map(|process| process.counts.recorded())
        .sum();
    let kept: u64 = report
        .processes
        .iter()
        .map(|process| process.counts.delivered)
        .sum();
    tell(&format!(
        "profiler: wrote {path} ({} bytes, {kept} of {recorded} entries); `profiler view {path}` opens it",
        report.bytes
    ));
    for process in report
        .processes
        .iter()
        .filter(|process| process.pid == program)
    {
        // A process that ended regularly needs no message.
        let why = process.verdict.why();
        let is_orderly = why.is_none_or(profiler_parent::Why::is_orderly);
        if !is_orderly || matches!(process.verdict, Verdict::Missing { .. }) {
            tell(&format!(
                "profiler: {} is {}",
                plain(&process.name),
                process.verdict
            ));
        }
    }
}
