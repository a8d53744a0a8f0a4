//! What `profiler record` prints at its end.

use std::time::Duration;

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{CaptureReport, ProfiledChild, Session, Verdict};

use crate::console::tell;
use crate::plain::plain;

/// A program that ran for a shorter time may have ended before the agent recorded it.
const BRIEF: Duration = Duration::from_millis(200);

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

/// Says why no profile was written. `lived` is for how long the program ran, if it was to load the
/// agent.
pub(super) fn report_no_profile(
    session: &Session,
    child: &ProfiledChild,
    name: &str,
    lived: Option<Duration>,
) {
    let name = plain(name);
    let is_brief = lived.filter(|lived| *lived < BRIEF);
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
    } else if let Some(lived) = is_brief.filter(|_| child.is_profiled()) {
        tell(&format!(
            "profiler: {name} recorded nothing: it ran for {} ms, too short to be recorded. No \
             profile was written",
            lived.as_millis()
        ));
    } else if child.is_profiled() {
        tell(&format!(
            "profiler: {name} recorded nothing: it embeds no profiler, has a session of its own, \
             or ended before it called profiler_child::init(). No profile was written"
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
        // A process that ended regularly needs no message, and neither does a short program.
        let why = process.verdict.why();
        if why.is_some_and(profiler_parent::Why::is_brief) {
            continue;
        }
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
