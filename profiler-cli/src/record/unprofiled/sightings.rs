//! What was seen of the processes below the program, and which of them are reported as not
//! profiled.
//!
//! A pure state machine: facts in, reports out. A process that the session lists is never reported:
//! the session may forget it later. Invariant: what it keeps is bounded, and about processes that
//! ran in the last look.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::reason::Reason;

/// The most programs that are kept.
const MAX: usize = 4096;
/// The time for which a process must be seen before it is reported. In a shorter time, a program
/// makes its file, and a program that contains the profiler joins.
const SEEN_FOR: Duration = Duration::from_millis(60);
/// The same for a process that certainly makes no file. It may contain the profiler.
const SEEN_FOR_IF_CERTAIN: Duration = Duration::from_millis(20);
/// The same for a process without a known reason, and for a forked process. Another session may
/// record the process and reports that soon, and a forked process usually executes another program.
const SEEN_FOR_IF_SILENT: Duration = Duration::from_millis(200);

/// The same for a process that certainly makes no file and is listed.
const SEEN_FOR_IF_LISTED: Duration = Duration::from_millis(300);

/// A process that does not record, for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    pub(super) reason: Reason,
}

/// A program of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Program {
    pub(super) pid: u32,
    /// When the process began. The number alone may be that of an earlier process.
    pub(super) began: u64,
    pub(super) path: Option<PathBuf>,
    /// The addresses of its code and its first stack. They distinguish two executions of one
    /// program.
    pub(super) image: (u64, u64),
}

/// What was seen of one program of a process.
#[derive(Debug)]
struct Sighting {
    finding: Finding,
    first: Duration,
    last: Duration,
    stage: Stage,
    /// Whether the session has listed the process when it was asked last.
    was_listed: bool,
}

/// How far a program is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has just begun: its environment and its libraries may not be complete.
    New,
    /// It is reported, or listed by the session.
    Settled,
}

/// All that was seen. Times are since the beginning of the recording.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    seen: BTreeMap<Program, Sighting>,
    /// Programs that the present look has not examined.
    left_out: usize,
    most_left_out: usize,
}

impl Sightings {
    /// Notes that a program was seen. `examine` is called when it is seen first, and once more when
    /// it has been seen for long; `is_listed` says whether the session lists it, and is called in
    /// each look afterwards. Returns what is to be reported at once.
    pub(super) fn see(
        &mut self,
        program: Program,
        now: Duration,
        is_listed: impl FnOnce() -> bool,
        examine: impl FnOnce() -> Finding,
    ) -> Option<Finding> {
        if let Some(sighting) = self.seen.get_mut(&program) {
            sighting.last = now;
            return sighting.stays(is_listed, examine);
        }
        if self.seen.len() < MAX {
            let sighting = Sighting {
                finding: examine(),
                first: now,
                last: now,
                stage: Stage::New,
                was_listed: false,
            };
            self.seen.insert(program, sighting);
        } else {
            self.left_out += 1;
        }
        None
    }

    /// Ends a look: forgets the programs of processes that have ended. Returns what is to be
    /// reported of them. The programs that a process has executed before stay, because its present
    /// program may be about to join.
    pub(super) fn end_look(&mut self, runs: impl Fn(&Program) -> bool) -> Vec<Finding> {
        self.most_left_out = self.most_left_out.max(self.left_out);
        self.left_out = 0;
        let gone = self.seen.extract_if(.., |program, _| !runs(program));
        gone.filter_map(|(_, sighting)| sighting.rest()).collect()
    }

    /// What is to be reported at the end of the recording.
    pub(super) fn rest(&mut self) -> Vec<Finding> {
        let all = std::mem::take(&mut self.seen).into_values();
        all.filter_map(Sighting::rest).collect()
    }

    /// The most programs that one look has not examined, because there were too many.
    pub(super) const fn most_left_out(&self) -> usize {
        self.most_left_out
    }
}

impl Sighting {
    /// The program runs still.
    fn stays(
        &mut self,
        is_listed: impl FnOnce() -> bool,
        examine: impl FnOnce() -> Finding,
    ) -> Option<Finding> {
        let least = match self.finding.reason {
            reason if reason.is_certain() => SEEN_FOR_IF_CERTAIN,
            Reason::Forked | Reason::Silent => SEEN_FOR_IF_SILENT,
            _ => SEEN_FOR,
        };
        if self.stage == Stage::Settled || self.last.saturating_sub(self.first) < least {
            return None;
        }
        self.was_listed = is_listed();
        if self.was_listed {
            // What is listed may be an earlier program of the process, whose end the session has
            // not noticed. The session decides whether it is, if this program certainly makes no
            // file.
            let is_certain = self.finding.reason.is_certain();
            if is_certain && self.last.saturating_sub(self.first) < SEEN_FOR_IF_LISTED {
                return None;
            }
            self.stage = Stage::Settled;
            return is_certain.then(|| self.finding.clone());
        }
        self.stage = Stage::Settled;
        if self.finding.reason == Reason::Silent {
            self.finding = examine();
        }
        Some(self.finding.clone())
    }

    /// What is to be reported when the program has ended. A program that was seen briefly may have
    /// recorded, unless that is impossible.
    fn rest(self) -> Option<Finding> {
        let is_new = self.stage == Stage::New && !self.was_listed;
        let is_due = is_new && self.finding.reason.is_certain();
        is_due.then_some(self.finding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);
    const LATER: Duration = Duration::from_secs(2);

    fn finding(pid: u32, reason: Reason) -> Finding {
        Finding {
            pid,
            parent: 1,
            name: "program".to_owned(),
            reason,
        }
    }

    fn program(pid: u32, began: u64, path: &str) -> Program {
        Program {
            pid,
            began,
            path: Some(path.into()),
            image: (0, 0),
        }
    }

    fn see(sightings: &mut Sightings, pid: u32, now: Duration, reason: Reason) -> Option<Finding> {
        let program = program(pid, 1, "/bin/program");
        sightings.see(program, now, || false, || finding(pid, reason))
    }

    #[test]
    fn a_certain_reason_is_reported_once_when_the_process_stays() {
        let mut sightings = Sightings::default();
        assert_eq!(see(&mut sightings, 7, NOW, Reason::Static), None);
        let reported = see(&mut sightings, 7, LATER, Reason::Static);
        assert_eq!(reported, Some(finding(7, Reason::Static)));
        assert_eq!(see(&mut sightings, 7, LATER, Reason::Static), None);
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn a_program_without_a_file_is_reported_also_if_the_one_before_stays_listed() {
        let mut sightings = Sightings::default();
        let mut see = |now: u64, reason: Reason| {
            let program = program(7, 1, "/bin/program");
            let now = Duration::from_millis(now);
            sightings.see(program, now, || true, || finding(7, reason))
        };
        assert_eq!(see(1000, Reason::Static), None);
        assert_eq!(see(1100, Reason::Static), None);
        let reported = see(1400, Reason::Static);
        assert_eq!(reported, Some(finding(7, Reason::Static)));
        assert_eq!(see(1500, Reason::Static), None, "once");
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn a_short_process_is_reported_when_it_has_ended_if_the_reason_is_certain() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Static);
        see(&mut sightings, 8, NOW, Reason::Forked);
        assert_eq!(sightings.end_look(|_| true), []);
        assert_eq!(sightings.end_look(|_| false), [finding(7, Reason::Static)]);
        see(&mut sightings, 9, LATER, Reason::Static);
        assert_eq!(sightings.rest(), [finding(9, Reason::Static)]);
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn an_uncertain_reason_is_reported_once_if_the_process_stays() {
        let mut sightings = Sightings::default();
        assert_eq!(see(&mut sightings, 7, NOW, Reason::Forked), None);
        let reported = see(&mut sightings, 7, LATER, Reason::Forked);
        assert_eq!(reported, Some(finding(7, Reason::Forked)));
        see(&mut sightings, 8, LATER, Reason::Forked);
        assert_eq!(sightings.end_look(|_| false), []);
    }

    #[test]
    fn a_process_that_the_session_has_listed_is_not_reported_after_its_entry_is_forgotten() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Silent);
        let own = program(7, 1, "/bin/program");
        let reported = sightings.see(own, LATER, || true, || finding(7, Reason::Silent));
        assert_eq!(reported, None);
        // The session has no entry of it any more.
        assert_eq!(see(&mut sightings, 7, 2 * LATER, Reason::Silent), None);
        assert_eq!(sightings.end_look(|_| false), []);
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn a_short_process_without_a_file_is_not_reported_if_the_session_has_listed_it() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Static);
        let soon = NOW + SEEN_FOR_IF_LISTED / 2;
        let own = program(7, 1, "/bin/program");
        let reported = sightings.see(own, soon, || true, || finding(7, Reason::Static));
        assert_eq!(reported, None);
        assert_eq!(sightings.end_look(|_| false), []);
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn a_process_that_begins_is_examined_again() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Silent);
        let reported = see(&mut sightings, 7, LATER, Reason::ChangedPreload);
        assert_eq!(reported, Some(finding(7, Reason::ChangedPreload)));
        assert_eq!(see(&mut sightings, 7, 2 * LATER, Reason::Forked), None);
    }

    #[test]
    fn another_program_or_process_of_the_same_number_is_examined_again() {
        for other in [program(7, 1, "/bin/other"), program(7, 2, "/bin/program")] {
            let mut sightings = Sightings::default();
            see(&mut sightings, 7, NOW, Reason::Forked);
            let mut see_other = |now| {
                let examine = || finding(7, Reason::Static);
                sightings.see(other.clone(), now, || false, examine)
            };
            assert_eq!(see_other(LATER), None);
            assert_eq!(see_other(2 * LATER), Some(finding(7, Reason::Static)));
        }
    }

    #[test]
    fn processes_beyond_the_maximum_are_counted_until_others_end() {
        let mut sightings = Sightings::default();
        for pid in 0..10_000 {
            see(&mut sightings, pid, NOW, Reason::Static);
        }
        assert_eq!(sightings.end_look(|_| true), []);
        assert_eq!(sightings.most_left_out(), 10_000 - MAX);
        assert_eq!(sightings.end_look(|_| false).len(), MAX);
        see(&mut sightings, 10_000, LATER, Reason::Static);
        assert_eq!(sightings.rest().len(), 1);
    }
}
