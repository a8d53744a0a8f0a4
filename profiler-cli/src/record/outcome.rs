//! What `profiler record` prints at its end.

use std::collections::BTreeMap;

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{CaptureReport, ProfiledChild, Session, Verdict, Why};

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
    for remark in &report.left_out {
        tell(&format!("profiler: {}", plain(remark)));
    }
    if report.unread_programs > 0 {
        tell(&format!(
            "profiler: {} more programs are not in the profile: what they recorded was not read in \
             time",
            report.unread_programs
        ));
    }
    let verdicts = report.processes.iter().filter(|one| one.pid != program);
    let verdicts = verdicts.map(|one| (one.name.as_str(), &one.verdict));
    if let Some(told) = unrecorded(verdicts) {
        tell(&format!("profiler: {}", plain(&told)));
    }
    for process in report
        .processes
        .iter()
        .filter(|process| process.pid == program)
    {
        // A process that ended regularly needs no message.
        let why = process.verdict.why();
        let is_orderly = why.is_none_or(Why::is_orderly);
        if !is_orderly || matches!(process.verdict, Verdict::Missing { .. }) {
            tell(&format!(
                "profiler: {} is {}",
                plain(&process.name),
                process.verdict
            ));
        }
    }
}

/// The sentence about those of these processes that were not recorded: their number, and the most
/// frequent reason. `None` if there are none. A process that had nothing to record is not one of
/// them.
fn unrecorded<'a>(verdicts: impl Iterator<Item = (&'a str, &'a Verdict)>) -> Option<String> {
    let mut first = None;
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, verdict) in verdicts {
        let Verdict::Missing { why } = verdict else {
            continue;
        };
        let reason = match why {
            Why::Unprofiled { message } => message,
            Why::NeverConnected => "it never connected",
            _ => continue,
        };
        first.get_or_insert(name);
        *reasons.entry(reason).or_default() += 1;
    }
    let all: usize = reasons.values().sum();
    let (reason, count) = reasons.into_iter().max_by_key(|(_, count)| *count)?;
    let why = match (all, count) {
        (1, _) => format!("{} was not recorded: {reason}", first?),
        (all, count) if all == count => format!("{all} processes were not recorded: {reason}"),
        (all, count) => format!("{all} processes were not recorded, {count} of them: {reason}"),
    };
    Some(format!("{why} (see `profiler info`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reason_of_processes_that_were_not_recorded_is_told() {
        let missing = |message: &str| Verdict::Missing {
            why: Why::Unprofiled {
                message: message.to_owned(),
            },
        };
        let (is_static, cleared) = (missing("it is static"), missing("it was cleared"));
        let told = |all: &[&Verdict]| unrecorded(all.iter().map(|verdict| ("sh", *verdict)));
        let short = Verdict::Missing {
            why: Why::RecordedNothing,
        };
        assert_eq!(told(&[&Verdict::Complete, &short]), None);
        let one = "sh was not recorded: it is static (see `profiler info`)";
        assert_eq!(told(&[&is_static, &short]).as_deref(), Some(one));
        let all = "2 processes were not recorded: it is static (see `profiler info`)";
        assert_eq!(told(&[&is_static, &is_static]).as_deref(), Some(all));
        let most = "3 processes were not recorded, 2 of them: it was cleared (see `profiler info`)";
        assert_eq!(
            told(&[&cleared, &is_static, &cleared]).as_deref(),
            Some(most)
        );
    }
}
