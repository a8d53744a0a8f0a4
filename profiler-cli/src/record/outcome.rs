//! What `profiler record` prints at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{CaptureReport, ProfiledChild, Session, Verdict, Why};

use crate::console::tell;
use crate::plain::plain;
use crate::remarks::grouped_lines;

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

/// The shortest processor time of processes that were not recorded that is told.
const SHORTEST: Duration = Duration::from_millis(100);

/// Says where the profile is, and whether the program, with this process number, did not end
/// regularly. The processes that were not recorded have used at least the time `unrecorded`.
pub(super) fn report_profile(report: &CaptureReport, program: ProcessId, unrecorded: Duration) {
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
    for remark in grouped_lines(&report.left_out) {
        tell(&format!("profiler: {}", plain(&remark)));
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
    if let Some(told) = missing(verdicts) {
        let used = match unrecorded >= SHORTEST {
            true => format!(
                "; they have used at least {:.1} s of processor time",
                unrecorded.as_secs_f64()
            ),
            false => String::new(),
        };
        tell(&format!("profiler: {}{used}", plain(&told)));
    }
    let of_program = report.processes.iter().filter(|one| one.pid == program);
    for process in of_program.filter(|one| matters(&one.verdict)) {
        tell(&format!(
            "profiler: {} is {}",
            plain(&process.name),
            process.verdict
        ));
    }
}

/// Whether the verdict on a program is worth a message. It is not if the program ended regularly,
/// or is absent because it had nothing to record or because another program took its place.
fn matters(verdict: &Verdict) -> bool {
    let Some(why) = verdict.why() else {
        return false;
    };
    let is_missing = matches!(verdict, Verdict::Missing { .. });
    !has_nothing_to_show(why) && (is_missing || !why.is_orderly())
}

/// Whether a process with this reason misses nothing in the profile.
const fn has_nothing_to_show(why: &Why) -> bool {
    matches!(
        why,
        Why::Executed | Why::RecordsItself | Why::RecordedNothing | Why::RecordedElsewhere { .. }
    )
}

/// The sentence about those of these processes that are not in the profile: their number, and the
/// most frequent reason. `None` if there are none. A process that had nothing to record is not one
/// of them.
fn missing<'a>(verdicts: impl Iterator<Item = (&'a str, &'a Verdict)>) -> Option<String> {
    let mut first = None;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (name, verdict) in verdicts {
        let Verdict::Missing { why } = verdict else {
            continue;
        };
        let reason = match why {
            why if has_nothing_to_show(why) => continue,
            Why::Unprofiled { message } => message.clone(),
            Why::NeverConnected => "it never connected".to_owned(),
            // Such as data that is older than what the limit keeps, or that cannot be read.
            other => other.to_string(),
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
    fn a_program_that_executes_another_one_or_ends_regularly_needs_no_message() {
        let missing = |why| Verdict::Missing { why };
        for quiet in [
            Verdict::Complete,
            missing(Why::Executed),
            missing(Why::RecordsItself),
            missing(Why::RecordedNothing),
        ] {
            assert!(!matters(&quiet), "{quiet}");
        }
        let why = Why::Exited { status: 1 };
        let killed = Why::Stopped {
            status: "signal 9 (SIGKILL)".to_owned(),
        };
        for told in [
            missing(why),
            missing(Why::Expired),
            Verdict::Recovered { why: killed },
        ] {
            assert!(matters(&told), "{told}");
        }
    }

    #[test]
    fn the_most_frequent_reason_of_processes_that_were_not_recorded_is_told() {
        let missing = |message: &str| Verdict::Missing {
            why: Why::Unprofiled {
                message: message.to_owned(),
            },
        };
        let (is_static, cleared) = (missing("it is static"), missing("it was cleared"));
        let told = |all: &[&Verdict]| super::missing(all.iter().map(|verdict| ("sh", *verdict)));
        let short = Verdict::Missing {
            why: Why::RecordedNothing,
        };
        assert_eq!(told(&[&Verdict::Complete, &short]), None);
        assert_eq!(told(&[&Verdict::Missing { why: Why::Executed }]), None);
        let one = "sh was not recorded: it is static (see `profiler info`)";
        assert_eq!(told(&[&is_static, &short]).as_deref(), Some(one));
        let lost = Verdict::Missing { why: Why::Expired };
        let four = "4 processes were not recorded: all its data was older than what the session \
                    keeps (see `profiler info`)";
        assert_eq!(told(&[&lost; 4]).as_deref(), Some(four));
        let all = "2 processes were not recorded: it is static (see `profiler info`)";
        assert_eq!(told(&[&is_static, &is_static]).as_deref(), Some(all));
        let most = "3 processes were not recorded, 2 of them: it was cleared (see `profiler info`)";
        assert_eq!(
            told(&[&cleared, &is_static, &cleared]).as_deref(),
            Some(most)
        );
    }
}
