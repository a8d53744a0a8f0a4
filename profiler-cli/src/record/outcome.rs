//! What `profiler record` prints at its end.

use profiler_parent::{CaptureReport, ProcessReport, ProfiledChild, Session, Verdict};

use crate::plain::plain;

/// Whether a profile says something about a process that the program has started: its data, or
/// which session has its data.
pub(super) fn is_of_interest(process: &ProcessReport) -> bool {
    process.recorded_by.is_some() || process.has_joined && process.unprofiled.is_none()
}

/// Says why no profile was written.
pub(super) fn report_no_profile(session: &Session, child: &ProfiledChild, name: &str) {
    let name = plain(name);
    if let Some(why) = super::unprofiled::reason_of(session, child).filter(|_| child.is_profiled())
    {
        eprintln!("profiler: {name} recorded nothing: {why}. No profile was written");
    } else if child.is_profiled() {
        eprintln!(
            "profiler: {name} recorded nothing: it embeds no profiler, has a session of its own, \
             or ended before it called profiler_child::init(). No profile was written"
        );
    } else {
        eprintln!(
            "profiler: {name} ran unprofiled: the memory limit is too small. No profile was written"
        );
    }
}

/// Says where the profile is, and which processes of the program's name did not end regularly.
pub(super) fn report_profile(report: &CaptureReport, name: &str) {
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
    eprintln!(
        "profiler: wrote {path} ({} bytes, {kept} of {recorded} entries); `profiler view {path}` opens it",
        report.bytes
    );
    for process in report
        .processes
        .iter()
        .filter(|process| process.name == name)
    {
        // A process that ended regularly needs no message, and neither does a short program.
        let why = process.verdict.why();
        if why.is_some_and(profiler_parent::Why::is_brief) {
            continue;
        }
        let is_orderly = why.is_none_or(profiler_parent::Why::is_orderly);
        if !is_orderly || matches!(process.verdict, Verdict::Missing { .. }) {
            eprintln!("profiler: {} is {}", plain(name), process.verdict);
        }
    }
}
