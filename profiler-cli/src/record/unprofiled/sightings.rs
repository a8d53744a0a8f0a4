//! What was seen of the processes below the program, and which of them are reported as not
//! profiled.
//!
//! A pure state machine: facts in, reports out. It does not know which processes record: the
//! session ignores a report about one that does. Invariant: what it keeps is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The most programs of processes that are kept.
const MOST: usize = 4096;
/// A process must be seen for this time before it is reported: a program that contains the profiler
/// joins in a shorter time, and a forked process usually executes another program.
const SEEN_FOR: Duration = Duration::from_millis(200);

/// Why a process does not record, if it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It has no loader.
    Static,
    /// It uses another C library than the agent.
    Musl,
    /// It is made for another processor.
    Foreign,
    /// It is set-user-ID or similar, or belongs to another user.
    OtherRights,
    /// It does not know the address of the session.
    ClearedEnvironment,
    /// It is not told to load the agent.
    ChangedPreload,
    /// The agent stays out of it.
    Sanitizer,
    /// The agent stays out of it: it may have fewer descriptors than the agent leaves alone.
    FewDescriptors,
    /// It is a copy of its parent process.
    Forked,
    /// Nothing is known.
    Silent,
}

impl Reason {
    /// Whether the process certainly does not record by means of the agent.
    const fn is_certain(self) -> bool {
        matches!(
            self,
            Self::Static | Self::Musl | Self::Foreign | Self::OtherRights
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "it is statically linked",
            Self::Musl => "it uses the C library musl, for which there is no agent",
            Self::Foreign => "it is made for another processor",
            Self::OtherRights => "it has other rights than the profiler",
            Self::ClearedEnvironment => "its environment was cleared",
            Self::ChangedPreload => "LD_PRELOAD was removed from its environment",
            Self::Sanitizer => "it is built with a sanitizer",
            Self::FewDescriptors => "its limit on open files is too low",
            Self::Forked => "it was forked, and executes no other program",
            Self::Silent => "it has not asked to join",
        })
    }
}

/// A process that does not record, for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) name: String,
    pub(super) reason: Reason,
}

/// What was seen of one program of a process.
#[derive(Debug)]
struct Sighting {
    finding: Finding,
    first: Duration,
    last: Duration,
    is_reported: bool,
}

/// A program of a process: its number, and the path of the program.
type Key = (u32, Option<PathBuf>);

/// All that was seen. Times are since the beginning of the recording.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    seen: BTreeMap<Key, Sighting>,
}

impl Sightings {
    /// Notes that a process was seen. `examine` is called once for each program of a process.
    /// Returns what is to be reported at once.
    pub(super) fn see(
        &mut self,
        pid: u32,
        program: Option<PathBuf>,
        now: Duration,
        examine: impl FnOnce() -> Finding,
    ) -> Option<Finding> {
        let key = (pid, program);
        if let Some(sighting) = self.seen.get_mut(&key) {
            sighting.last = now;
            let is_due = sighting.finding.reason.is_certain() && sighting.was_seen_for_long();
            return (is_due && !sighting.is_reported).then(|| sighting.report());
        }
        if self.seen.len() < MOST {
            let sighting = Sighting {
                finding: examine(),
                first: now,
                last: now,
                is_reported: false,
            };
            self.seen.insert(key, sighting);
        }
        None
    }

    /// What is to be reported at the end of the recording.
    pub(super) fn rest(&mut self) -> Vec<Finding> {
        let all = self.seen.values_mut();
        let due = all.filter(|sighting| {
            let is_due = sighting.finding.reason.is_certain() || sighting.was_seen_for_long();
            is_due && !sighting.is_reported
        });
        due.map(Sighting::report).collect()
    }
}

impl Sighting {
    fn was_seen_for_long(&self) -> bool {
        self.last.saturating_sub(self.first) >= SEEN_FOR
    }

    fn report(&mut self) -> Finding {
        self.is_reported = true;
        self.finding.clone()
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

    fn see(sightings: &mut Sightings, pid: u32, now: Duration, reason: Reason) -> Option<Finding> {
        sightings.see(pid, Some("/bin/program".into()), now, || {
            finding(pid, reason)
        })
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
    fn a_short_process_is_reported_at_the_end_if_the_reason_is_certain() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Static);
        see(&mut sightings, 8, NOW, Reason::Forked);
        assert_eq!(sightings.rest(), [finding(7, Reason::Static)]);
        assert_eq!(sightings.rest(), []);
    }

    #[test]
    fn an_uncertain_reason_is_reported_at_the_end_if_the_process_stayed() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Forked);
        assert_eq!(see(&mut sightings, 7, LATER, Reason::Forked), None);
        assert_eq!(sightings.rest(), [finding(7, Reason::Forked)]);
    }

    #[test]
    fn another_program_of_the_process_is_examined_again() {
        let mut sightings = Sightings::default();
        see(&mut sightings, 7, NOW, Reason::Forked);
        let other = Some(PathBuf::from("/bin/other"));
        let mut see_other =
            |now| sightings.see(7, other.clone(), now, || finding(7, Reason::Static));
        assert_eq!(see_other(NOW), None);
        assert_eq!(see_other(LATER), Some(finding(7, Reason::Static)));
    }

    #[test]
    fn the_number_of_processes_is_bounded() {
        let mut sightings = Sightings::default();
        for pid in 0..10_000 {
            see(&mut sightings, pid, NOW, Reason::Static);
        }
        assert_eq!(sightings.rest().len(), MOST);
    }
}
