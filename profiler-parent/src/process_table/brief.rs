//! Programs that ended before they asked for memory.
//!
//! Part of the [`ProcessTable`]. A program that the agent records announces itself when it begins,
//! and asks for memory some milliseconds later; most programs of a shell script end before. The
//! latest of them are listed one by one, like all processes without data. The earlier ones are
//! added up by their names. A program that closes its connection and runs on is listed as not
//! profiled. Invariant: an announced program is listed, added up, or has joined.

#![cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code, reason = "no process announces itself there")
)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::time::Timestamp;

use super::joined::has_room;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::gather::verdict::Why;

/// The most names under which runs are added up.
const MAX_NAMES: usize = 256;
/// The name under which all further runs are added up.
const OTHERS: &str = "other programs";

/// Why a program has no data that has announced itself, has left and runs on.
const RUNS_ON: &str = "it closed its connection before it asked for memory";

/// What is known of a program that has announced itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BriefLife {
    /// For how long it ran; `None` while it runs, and if its end was not seen.
    pub(crate) lived: Option<Duration>,
    /// When it began, according to itself. Distinguishes the programs of one process.
    pub(crate) began_ns: u64,
    /// It has left, and is known to run on.
    pub(crate) runs_on: bool,
}

impl BriefLife {
    /// Why there is no data of it. `end` is what is known of its process.
    pub(crate) fn why(self, end: Option<Why>) -> Why {
        if self.runs_on {
            let message = RUNS_ON.to_owned();
            return Why::Unprofiled { message };
        }
        match end {
            Some(crash @ (Why::Crashed { .. } | Why::Stopped { .. })) => crash,
            Some(Why::NeverConnected) if self.lived.is_none() => Why::NeverConnected,
            _ => Why::Brief {
                lived_us: self.lived.map(|lived| to_u64(lived.as_micros())),
            },
        }
    }
}

/// Runs of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BriefRuns {
    runs: u64,
    lived: Duration,
}

impl BriefRuns {
    /// Why there is no data of them.
    pub(crate) fn why(self) -> Why {
        Why::BriefRuns {
            runs: self.runs,
            lived_ms: to_u64(self.lived.as_millis()),
        }
    }
}

fn to_u64(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The programs that are no longer listed one by one.
#[derive(Debug, Default)]
pub(super) struct BriefSums(BTreeMap<String, BriefRuns>);

impl BriefSums {
    pub(super) fn add(&mut self, name: &str, life: BriefLife) {
        let has_room = self.0.contains_key(name) || self.0.len() < MAX_NAMES;
        let name = if has_room { name } else { OTHERS };
        let sum = self.0.entry(name.to_owned()).or_default();
        sum.runs = sum.runs.saturating_add(1);
        sum.lived = sum.lived.saturating_add(life.lived.unwrap_or_default());
    }

    /// The number of all runs.
    pub(super) fn runs(&self) -> u64 {
        let all = self.0.values().map(|sum| sum.runs);
        all.fold(0, u64::saturating_add)
    }

    pub(super) fn all(&self) -> Vec<(String, BriefRuns)> {
        let all = self.0.iter();
        all.map(|(name, sum)| (name.clone(), *sum)).collect()
    }
}

/// Waits until all processes are in the table that have announced themselves.
#[derive(Clone)]
pub(super) struct Arrivals(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

/// Who meets processes that arrive by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalSource {
    /// The join thread.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    Joining,
    /// The reader of observed programs.
    #[cfg(feature = "observed")]
    Observed,
}

impl ProcessTable {
    /// Sets a function that [`Self::await_arrivals`] calls. It waits for a limited time.
    pub(crate) fn set_arrivals(
        &self,
        source: ArrivalSource,
        wait: impl Fn() + Send + Sync + 'static,
    ) {
        self.clear_arrivals(source);
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push((source, Arrivals(Arc::new(wait))));
    }

    /// Forgets the function of [`Self::set_arrivals`].
    pub(crate) fn clear_arrivals(&self, source: ArrivalSource) {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.retain(|(known, _)| *known != source);
    }

    /// Notes that a program has left without asking for memory. Its end is not known yet.
    pub(crate) fn note_brief(&self, key: PoolId, lived: Option<Duration>) {
        self.change(key, |process| {
            if let Remains::Brief(life) = &mut process.remains {
                life.lived = lived;
                process.died.get_or_insert(Timestamp::now());
            }
        });
    }

    /// Notes the end of a program that has left without asking for memory.
    pub(crate) fn end_brief(&self, key: PoolId, state: ProcessState) {
        let has_ended = self.change(key, |process| {
            let ends = !process.is_over() && matches!(process.remains, Remains::Brief(_));
            if ends {
                process.state = state;
                process.died.get_or_insert(Timestamp::now());
            }
            ends
        });
        if has_ended == Some(true) {
            self.note_empty(key);
        }
    }

    /// Notes that a program runs on that has left without asking for memory. Returns whether its
    /// end shall be noted; otherwise at least `most` processes without data are listed already.
    pub(crate) fn note_runs_on(&self, key: PoolId, most: usize) -> bool {
        let mut all = self.lock();
        let Some(process) = all.get(&key) else {
            return false;
        };
        let has_room = has_room(all.values(), process.pid, process.start, most);
        let noted = all.get_mut(&key).map(|process| {
            process.died = None;
            if let Remains::Brief(life) = &mut process.remains {
                life.lived = None;
                life.runs_on = true;
            }
        });
        drop(all);
        if noted.is_some() && !has_room {
            self.list_without_end(key, None);
        }
        has_room
    }

    /// Notes why a program is refused that has left, runs on, and has asked again. `false` if none
    /// is listed.
    pub(crate) fn refuse_brief(&self, pid: ProcessId, began_ns: u64, why: &str) -> bool {
        let mut all = self.lock();
        let mut briefs = all.values_mut().filter(|process| {
            let runs_on = |life: &BriefLife| life.runs_on && !process.is_over();
            is_announcement(process, pid, began_ns)
                && matches!(&process.remains, Remains::Brief(life) if runs_on(life))
        });
        let refused = briefs.next().map(|process| {
            process.remains = Remains::Unprofiled(why.to_owned());
        });
        refused.is_some()
    }

    /// Forgets the announcement of a program that joins after its connection was closed. Returns
    /// its entries.
    pub(crate) fn forget_brief(&self, pid: ProcessId, began_ns: u64) -> Vec<PoolId> {
        let mut all = self.lock();
        let announced = all
            .iter()
            .filter(|(_, process)| is_announcement(process, pid, began_ns));
        let announced: Vec<PoolId> = announced.map(|(key, _)| *key).collect();
        for key in &announced {
            all.remove(key);
        }
        announced
    }

    /// Waits, for a limited time, until all processes are listed that have announced themselves
    /// until now, and until those that have left are known to have left.
    pub(crate) fn await_arrivals(&self) {
        let arrivals = self.arrivals.lock();
        let arrivals = arrivals.unwrap_or_else(PoisonError::into_inner).clone();
        for (_, Arrivals(wait)) in arrivals {
            wait();
        }
    }
}

/// Whether this is the entry of a program that has announced itself with this beginning.
fn is_announcement(process: &TrackedProcess, pid: ProcessId, began_ns: u64) -> bool {
    let began = |life: &BriefLife| began_ns != 0 && life.began_ns == began_ns;
    process.pid == pid && matches!(&process.remains, Remains::Brief(life) if began(life))
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::ProcessStart;

    use super::super::expired::MAX_LISTED;
    use super::*;

    const LIVED: Duration = Duration::from_micros(1_500);

    fn announced(table: &ProcessTable, number: u128, began_ns: u64) -> PoolId {
        let key = PoolId::new(number);
        let life = BriefLife {
            began_ns,
            ..BriefLife::default()
        };
        let process = (ProcessId::new(7), ProcessStart::new(5));
        table.add(
            key,
            TrackedProcess::joined("true", process, None, Remains::Brief(life)),
        );
        key
    }

    fn why(table: &ProcessTable, key: PoolId) -> String {
        let all = table.lock();
        let process = &all[&key];
        let Remains::Brief(life) = process.remains else {
            panic!("{process:?}")
        };
        life.why(process.why_unable()).to_string()
    }

    #[test]
    fn a_brief_program_is_listed_with_the_time_for_which_it_ran() {
        let table = ProcessTable::default();
        let key = announced(&table, 1, 1);
        assert_eq!(why(&table, key), "never connected");
        table.note_brief(key, Some(LIVED));
        let brief = "ran for 1.5 ms, too short to be recorded";
        assert_eq!(why(&table, key), brief, "its end is not known yet");
        table.end_brief(key, ProcessState::Exited(None));
        assert_eq!(why(&table, key), brief);
        assert_eq!(table.reports()[0].unprofiled.as_deref(), Some(brief));
    }

    #[cfg(unix)]
    #[test]
    fn a_crash_of_a_brief_program_is_told() {
        use std::os::unix::process::ExitStatusExt;
        let table = ProcessTable::default();
        let key = announced(&table, 1, 1);
        table.note_brief(key, Some(LIVED));
        let crash = std::process::ExitStatus::from_raw(11);
        table.end_brief(key, ProcessState::Exited(Some(crash)));
        assert_eq!(why(&table, key), "crashed with signal 11 (SIGSEGV)");
    }

    #[test]
    fn a_program_that_joins_after_all_is_no_brief_one() {
        let table = ProcessTable::default();
        announced(&table, 1, 1);
        announced(&table, 2, 2);
        table.forget_brief(ProcessId::new(7), 1);
        table.forget_brief(ProcessId::new(8), 2);
        table.forget_brief(ProcessId::new(7), 0);
        let left: Vec<PoolId> = table.lock().keys().copied().collect();
        assert_eq!(left, [PoolId::new(2)]);
    }

    #[test]
    fn a_program_that_leaves_and_runs_on_is_listed_as_not_profiled() {
        let table = ProcessTable::default();
        let key = announced(&table, 1, 1);
        table.note_brief(key, Some(LIVED));
        assert!(table.note_runs_on(key, 1));
        let text = "not profiled: it closed its connection before it asked for memory";
        assert_eq!(why(&table, key), text);
        assert_eq!(table.lock()[&key].died, None);
        assert_eq!((table.summary().unprofiled, table.summary().brief), (1, 0));
        let other = announced(&table, 2, 2);
        assert!(!table.note_runs_on(other, 1), "one is listed already");
        assert_eq!(why(&table, other), text);
        assert!(table.refuse_brief(ProcessId::new(7), 1, "no memory"));
        assert!(!table.refuse_brief(ProcessId::new(7), 1, "no memory"));
        assert!(matches!(
            &table.lock()[&key].remains,
            Remains::Unprofiled(_)
        ));
    }

    #[test]
    fn many_brief_programs_are_added_up_by_their_names() {
        let table = ProcessTable::default();
        for number in 0..MAX_LISTED as u128 + 10 {
            let key = announced(&table, number, 1);
            table.note_brief(key, Some(LIVED));
            table.end_brief(key, ProcessState::Exited(None));
        }
        assert_eq!(table.lock().len(), MAX_LISTED);
        assert_eq!(table.expired().processes, 0);
        let sums = table.expired_briefs();
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[0].0, "true");
        assert_eq!(table.brief_runs(), 10);
        let text = "ran 10 more times, for 15 ms in all, each time too short to be recorded";
        assert_eq!(sums[0].1.why().to_string(), text);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut sums = BriefSums::default();
        for number in 0..2 * MAX_NAMES {
            sums.add(&number.to_string(), BriefLife::default());
        }
        let all = sums.all();
        assert_eq!(all.len(), MAX_NAMES + 1);
        let others = all.iter().find(|(name, _)| name == OTHERS).unwrap();
        assert_eq!(others.1.runs, MAX_NAMES as u64);
    }
}
