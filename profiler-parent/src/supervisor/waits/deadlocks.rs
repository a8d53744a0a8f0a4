//! Finds deadlocks among the threads of the session's processes while they run.
//!
//! Used by `names`. Each look notes what a waiting thread waits for. A look skips a
//! thread that has not run since the look before, so an old note may describe a wait that still
//! lasts. Threads that seem to be stuck are checked twice, some time apart, and none of them may
//! have run in between.
//!
//! Invariant: a check reads nothing from the system unless the noted waits alone could be a
//! deadlock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use profiler_waits::{Blocker, ThreadKey, cycle, depended_on, program_threads, stuck_threads};

use crate::sys::now;

/// The time for which a wait must have lasted.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);
/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a note is kept if there are too many.
const NOTE_LASTS: Duration = Duration::from_secs(10);
/// The maximum number of waits that are noted.
const MAX_NOTED: usize = 16_384;

/// A wait that was noted at a look.
#[derive(Debug)]
struct NotedWait {
    blocker: Blocker,
    label: String,
    since: Instant,
}

/// Threads that seem to be stuck, with the number of times that each has run.
type RunCounts = BTreeMap<ThreadKey, u64>;

/// A thread of a deadlock, and the label of its wait.
pub(super) type StuckThread = (ThreadKey, String);

/// Threads that seem to wait for each other.
#[derive(Debug)]
pub(super) struct PossibleDeadlock {
    cycle: Vec<ThreadKey>,
    all: BTreeSet<ThreadKey>,
    counts: RunCounts,
}

impl PossibleDeadlock {
    /// The threads on which it depends.
    pub(super) const fn threads(&self) -> &BTreeSet<ThreadKey> {
        &self.all
    }
}

/// The waits that may be parts of a deadlock.
#[derive(Debug)]
pub(super) struct DeadlockWatch {
    noted: BTreeMap<ThreadKey, NotedWait>,
    /// By cycle: the threads on which it depends.
    suspected: BTreeMap<Vec<ThreadKey>, RunCounts>,
    reported: BTreeSet<Vec<ThreadKey>>,
    next_check: Instant,
}

impl DeadlockWatch {
    pub(super) fn new() -> Self {
        Self {
            noted: BTreeMap::new(),
            suspected: BTreeMap::new(),
            reported: BTreeSet::new(),
            next_check: now() + CHECK_INTERVAL,
        }
    }

    /// Notes what a thread waits for. `wait` is `None` if something other than a process or a
    /// thread may end the wait.
    pub(super) fn note(&mut self, key: ThreadKey, wait: Option<(Blocker, String)>) {
        let Some((blocker, label)) = wait else {
            self.noted.remove(&key);
            return;
        };
        let since = now();
        let noted = NotedWait {
            blocker,
            label,
            since,
        };
        if self.noted.len() >= MAX_NOTED {
            // Most of them are of threads that have run since, or have ended.
            self.noted
                .retain(|_, noted| since - noted.since < NOTE_LASTS);
        }
        if self.noted.len() < MAX_NOTED {
            self.noted.insert(key, noted);
        }
    }

    /// Threads that have been stuck in two checks, if a check is due and finds some.
    pub(super) fn check(&mut self) -> Option<PossibleDeadlock> {
        let moment = now();
        if moment < self.next_check {
            return None;
        }
        self.next_check = moment + CHECK_INTERVAL;
        let old = self.noted.iter().filter(|(_, noted)| {
            let stood = moment.saturating_duration_since(noted.since);
            stood >= SHORTEST_WAIT
        });
        let waits: BTreeMap<ThreadKey, Blocker> = old
            .map(|(key, noted)| (*key, noted.blocker.clone()))
            .collect();
        let suspected = std::mem::take(&mut self.suspected);
        let mut rest = self.stuck(&waits);
        let mut possible = None;
        loop {
            let found = cycle(&waits, &rest);
            let Some(first) = found.first() else { break };
            let all = depended_on(&waits, &rest, *first);
            rest.retain(|key| !all.contains(key));
            if self.reported.contains(&found) {
                continue;
            }
            let Some(counts) = self.run_counts(&all) else {
                continue;
            };
            if possible.is_none() && suspected.get(&found) == Some(&counts) {
                possible = Some(PossibleDeadlock {
                    cycle: found,
                    all,
                    counts,
                });
            } else {
                self.suspected.insert(found, counts);
            }
        }
        possible
    }

    /// The threads of a deadlock, if it `is_certain`. Otherwise, it is checked again.
    pub(super) fn decide(
        &mut self,
        possible: PossibleDeadlock,
        is_certain: bool,
    ) -> Option<Vec<StuckThread>> {
        let PossibleDeadlock { cycle, counts, .. } = possible;
        if !is_certain {
            self.suspected.insert(cycle, counts);
            return None;
        }
        let label = |key: &ThreadKey| Some((*key, self.noted.get(key)?.label.clone()));
        let found = cycle.iter().filter_map(label).collect();
        self.reported.insert(cycle);
        Some(found)
    }

    /// How often each of these threads has run. `None` if one of them has ended: its note is
    /// forgotten.
    fn run_counts(&mut self, all: &BTreeSet<ThreadKey>) -> Option<RunCounts> {
        let count = |key: &ThreadKey| (*key, runs(*key));
        let counts: Vec<(ThreadKey, Option<u64>)> = all.iter().map(count).collect();
        for (key, _) in counts.iter().filter(|(_, count)| count.is_none()) {
            self.noted.remove(key);
        }
        let counts = counts.into_iter();
        counts.map(|(key, count)| Some((key, count?))).collect()
    }

    /// The threads that are stuck. The lists of threads are read only if threads would be stuck if
    /// no other threads existed.
    fn stuck(&self, waits: &BTreeMap<ThreadKey, Blocker>) -> BTreeSet<ThreadKey> {
        let noted = |process: u32| {
            let first = ThreadKey { process, thread: 0 };
            let last = ThreadKey {
                process,
                thread: u32::MAX,
            };
            let keys = waits.range(first..=last);
            keys.map(|(key, _)| key.thread).collect()
        };
        if stuck_threads(waits, &noted).is_empty() {
            return BTreeSet::new();
        }
        stuck_threads(waits, &program_threads)
    }

    /// Forgets the notes of a process that has ended or executes another program.
    pub(super) fn forget(&mut self, process: u32) {
        self.noted.retain(|key, _| key.process != process);
    }
}

/// The number of times that a thread has run. `None` if it has ended.
fn runs(key: ThreadKey) -> Option<u64> {
    let ThreadKey { process, thread } = key;
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    let text = fs::read_to_string(path).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}
