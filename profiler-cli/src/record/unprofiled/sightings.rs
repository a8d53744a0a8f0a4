//! What was seen of the processes below the program, and which of them are reported as not
//! profiled.
//!
//! A pure state machine that turns facts into reports. A program that certainly makes no file is
//! reported at once; the session ignores reports of processes that are recorded. Any other program,
//! and a forked process, is reported if the session does not list it after some time. If the
//! session lists it then, it is never reported, even if the session forgets it later.
//! Invariants: the kept data is bounded, and describes only processes that ran at the last look at
//! them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::reason::Reason;

/// The most programs that are kept.
const MAX: usize = 4096;
/// The time for which a process must be seen before it is reported. In a shorter time, a program
/// makes its file, and a program that contains the profiler joins.
const SEEN_FOR: Duration = Duration::from_millis(60);
/// The same for a forked process that certainly makes no file.
const SEEN_FOR_IF_CERTAIN: Duration = Duration::from_millis(20);
/// The same for a process without a known reason, and for a forked process. Another session may
/// record the process and reports that soon, and a forked process usually executes another program.
const SEEN_FOR_IF_SILENT: Duration = Duration::from_millis(200);

/// A process that does not record, for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    pub(super) reason: Reason,
    /// Whether it still executes the program of its parent process. It may be about to execute
    /// another one.
    pub(super) is_fork: bool,
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
    stage: Stage,
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
    /// it has been seen for long. `is_listed` says whether the session lists it, and is called
    /// once, at that time. Returns what is to be reported at once.
    pub(super) fn see(
        &mut self,
        program: &Program,
        now: Duration,
        is_listed: impl FnOnce() -> bool,
        examine: impl FnOnce() -> Finding,
    ) -> Option<Finding> {
        if let Some(sighting) = self.seen.get_mut(program) {
            return sighting.stays(now, is_listed, examine);
        }
        if self.seen.len() >= MAX {
            self.left_out += 1;
            return None;
        }
        let finding = examine();
        let is_certain = finding.reason.is_certain() && !finding.is_fork;
        let report = is_certain.then(|| finding.clone());
        let stage = if is_certain {
            Stage::Settled
        } else {
            Stage::New
        };
        let first = now;
        self.seen.insert(
            program.clone(),
            Sighting {
                finding,
                first,
                stage,
            },
        );
        report
    }

    /// Begins a look.
    pub(super) fn begin_look(&mut self) {
        self.most_left_out = self.most_left_out.max(self.left_out);
        self.left_out = 0;
    }

    /// Whether nothing more is to be found out about a program.
    pub(super) fn is_settled(&self, program: &Program) -> bool {
        let sighting = self.seen.get(program);
        sighting.is_some_and(|sighting| sighting.stage == Stage::Settled)
    }

    /// Forgets the programs that a process has executed until now: it has ended, or executes
    /// another one. Returns the last one if it certainly makes no file and was not reported.
    pub(super) fn forget(&mut self, pid: u32) -> Option<Finding> {
        let first = Program {
            pid,
            began: 0,
            path: None,
            image: (0, 0),
        };
        let own = self.seen.range(first..);
        let own = own.take_while(|(program, _)| program.pid == pid);
        let own: Vec<Program> = own.map(|(program, _)| program.clone()).collect();
        let own = own.iter().filter_map(|program| self.seen.remove(program));
        own.filter_map(Sighting::rest).last()
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
        now: Duration,
        is_listed: impl FnOnce() -> bool,
        examine: impl FnOnce() -> Finding,
    ) -> Option<Finding> {
        let least = match self.finding.reason {
            reason if reason.is_certain() => SEEN_FOR_IF_CERTAIN,
            Reason::Forked | Reason::Silent => SEEN_FOR_IF_SILENT,
            _ => SEEN_FOR,
        };
        if self.stage == Stage::Settled || now.saturating_sub(self.first) < least {
            return None;
        }
        self.stage = Stage::Settled;
        // What is listed may be an earlier program of the process. A forked process has none.
        let is_certain = self.finding.reason.is_certain() && !self.finding.is_fork;
        if !is_certain && is_listed() {
            return None;
        }
        if self.finding.reason == Reason::Silent {
            self.finding = examine();
        }
        Some(self.finding.clone())
    }

    /// What is to be reported when the program has ended. A program that was seen briefly may have
    /// recorded, unless that is impossible.
    fn rest(self) -> Option<Finding> {
        let is_due = self.stage == Stage::New && self.finding.reason.is_certain();
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
            is_fork: false,
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
        sightings.see(&program, now, || false, || finding(pid, reason))
    }

    #[test]
    fn a_program_that_certainly_makes_no_file_is_reported_at_once_and_once() {
        let mut sightings = Sightings::default();
        let reported = see(&mut sightings, 7, NOW, Reason::Static);
        assert_eq!(reported, Some(finding(7, Reason::Static)));
        assert_eq!(see(&mut sightings, 7, NOW, Reason::Static), None);
        assert_eq!(see(&mut sightings, 7, LATER, Reason::Static), None);
    }

    #[test]
    fn a_forked_process_is_reported_if_it_has_not_executed_a_program_soon() {
        let mut sightings = Sightings::default();
        let forked = Finding {
            is_fork: true,
            ..finding(7, Reason::Static)
        };
        let own = program(7, 1, "/bin/program");
        for is_listed in [false, true] {
            let mut sightings = Sightings::default();
            let mut see = |now| sightings.see(&own, now, || is_listed, || forked.clone());
            assert_eq!(see(NOW), None);
            let reported = (!is_listed).then(|| forked.clone());
            assert_eq!(see(NOW + SEEN_FOR_IF_CERTAIN), reported);
            assert!(sightings.is_settled(&own));
            assert_eq!(sightings.forget(7), None);
        }
        // It has ended soon.
        let _ = sightings.see(&own, NOW, || false, || forked.clone());
        assert_eq!(sightings.forget(8), None);
        assert_eq!(sightings.forget(7), Some(forked));
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn an_uncertain_reason_is_reported_once_if_the_process_stays() {
        for (reason, least) in [
            (Reason::ChangedPreload, SEEN_FOR),
            (Reason::Forked, SEEN_FOR_IF_SILENT),
        ] {
            let mut sightings = Sightings::default();
            assert_eq!(see(&mut sightings, 7, NOW, reason), None);
            let early = NOW + least / 2;
            assert_eq!(see(&mut sightings, 7, early, reason), None);
            let reported = see(&mut sightings, 7, NOW + least, reason);
            assert_eq!(reported, Some(finding(7, reason)));
            assert_eq!(see(&mut sightings, 7, LATER, reason), None);
        }
    }

    #[test]
    fn a_process_that_the_session_has_listed_is_not_reported_after_its_entry_is_forgotten() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Silent);
        let own = program(7, 1, "/bin/program");
        let reported = sightings.see(&own, LATER, || true, || finding(7, Reason::Silent));
        assert_eq!(reported, None);
        // The session has no entry of it any more.
        assert_eq!(see(&mut sightings, 7, 2 * LATER, Reason::Silent), None);
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
            let examine = || finding(7, Reason::Static);
            let reported = sightings.see(&other, LATER, || false, examine);
            assert_eq!(reported, Some(finding(7, Reason::Static)));
        }
    }

    #[test]
    fn processes_beyond_the_maximum_are_counted_until_others_end() {
        let mut sightings = Sightings::default();
        let reported = (0..10_000).filter_map(|pid| see(&mut sightings, pid, NOW, Reason::Static));
        assert_eq!(reported.count(), MAX);
        sightings.begin_look();
        assert_eq!(sightings.most_left_out(), 10_000 - MAX);
        assert_eq!(sightings.forget(3), None, "it was reported");
        let reported = see(&mut sightings, 10_000, LATER, Reason::Static);
        assert!(reported.is_some());
    }
}
