//! The pools that a reader follows. Each process is added once, and an ended process is read to its
//! end.
//!
//! Used by the reader of observers; `T` is the data that it keeps for a process. The live flame
//! graph (`profiler_flame`) has a list of its own, and only reads the table. Invariant: a process
//! is added at most once, also when its pool has been given up.

use std::collections::{BTreeMap, BTreeSet};

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::time::Timestamp;
#[cfg(feature = "live")]
use profiler_flame::ProcessToSample;

use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

/// A process that a reader meets, borrowed from the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessForReader<'t> {
    pub(crate) pid: ProcessId,
    pub(crate) name: &'t str,
    /// It is the process of the session.
    pub(crate) is_parent: bool,
    /// Its recording has ended.
    pub(crate) is_over: bool,
    pub(crate) died: Option<Timestamp>,
    pub(crate) remains: &'t Remains,
}

impl<'t> ProcessForReader<'t> {
    fn of(process: &'t TrackedProcess) -> Self {
        Self {
            pid: process.pid,
            name: &process.name,
            is_parent: process.state == ProcessState::Parent,
            is_over: process.is_over(),
            died: process.died,
            remains: &process.remains,
        }
    }
}

/// A process whose pool is followed.
#[derive(Debug)]
pub(crate) struct FollowedPool<T> {
    /// What the reader keeps for it.
    pub(crate) reader: T,
    /// The process has ended: the next read is the last one.
    pub(crate) is_over: bool,
}

/// The processes of a session, as one reader sees them.
#[derive(Debug)]
pub(crate) struct PoolList<T> {
    open: BTreeMap<PoolId, FollowedPool<T>>,
    /// Processes that were read to their end, or that the reader does not follow.
    done: BTreeSet<PoolId>,
}

impl<T> PoolList<T> {
    pub(crate) const fn new() -> Self {
        Self {
            open: BTreeMap::new(),
            done: BTreeSet::new(),
        }
    }

    /// Finds new processes and ended processes. `begin` is called once for each new process; if it
    /// returns `None`, the process is not followed.
    pub(crate) fn update(
        &mut self,
        table: &ProcessTable,
        mut begin: impl FnMut(ProcessForReader<'_>) -> Option<T>,
    ) {
        let all = table.lock();
        for (key, process) in all.iter() {
            let is_over = process.is_over() || !matches!(process.remains, Remains::Pool(_));
            if let Some(known) = self.open.get_mut(key) {
                known.is_over = is_over;
            } else if !self.done.contains(key) {
                match begin(ProcessForReader::of(process)) {
                    Some(reader) => {
                        let pool = FollowedPool { reader, is_over };
                        self.open.insert(*key, pool);
                    }
                    None => {
                        self.done.insert(*key);
                    }
                }
            }
        }
        let gone = self
            .open
            .iter_mut()
            .filter(|(key, _)| !all.contains_key(key));
        gone.for_each(|(_, pool)| pool.is_over = true);
        self.done.retain(|key| all.contains_key(key));
    }

    /// The followed processes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.open.values().map(|pool| &pool.reader)
    }

    /// The followed processes, to be read.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FollowedPool<T>> {
        self.open.values_mut()
    }

    /// Removes the ended processes that have been read to their end.
    pub(crate) fn take_ended(&mut self, is_read: impl Fn(&T) -> bool) -> Vec<T> {
        let ended = self
            .open
            .extract_if(.., |_, pool| pool.is_over && is_read(&pool.reader));
        let ended: Vec<(PoolId, FollowedPool<T>)> = ended.collect();
        self.done.extend(ended.iter().map(|(key, _)| *key));
        ended.into_iter().map(|(_, pool)| pool.reader).collect()
    }
}

#[cfg(feature = "live")]
impl ProcessTable {
    /// Calls `each` for every process, for the live flame graph. The table is locked meanwhile.
    pub(crate) fn for_each_to_sample(&self, each: &mut dyn FnMut(ProcessToSample<'_>)) {
        for (key, process) in &*self.lock() {
            each(ProcessToSample {
                key: *key,
                order: process.order,
                pid: process.pid,
                name: &process.name,
                is_over: process.is_over(),
                died: process.died,
                pool: match &process.remains {
                    Remains::Pool(pool) => Some(pool),
                    Remains::Expired(_) | Remains::Unprofiled(_) => None,
                },
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::session::EntryCounts;

    use super::*;

    #[test]
    fn a_process_is_met_once_and_ends_once() {
        let table = ProcessTable::default();
        let key = PoolId::new(7);
        let gone = Remains::Expired(EntryCounts::default());
        let process = TrackedProcess::new("p", ProcessId::new(1), ProcessState::Connected, gone);
        table.add(key, process);
        let mut list = PoolList::new();
        let mut met = 0;
        for _ in 0..3 {
            list.update(&table, |_| {
                met += 1;
                Some(met)
            });
        }
        assert_eq!((met, list.iter().count()), (1, 1));
        assert!(
            list.take_ended(|_| false).is_empty(),
            "it is not read to its end"
        );
        assert_eq!(
            list.take_ended(|_| true),
            [1],
            "it has no pool, so it is over"
        );
        list.update(&table, |_| Some(9));
        assert_eq!(list.iter().count(), 0, "it is added again after its end");
        table.remove(key);
        list.update(&table, |_| None);
        assert!(
            list.done.is_empty(),
            "processes that left the table are kept"
        );
    }
}
