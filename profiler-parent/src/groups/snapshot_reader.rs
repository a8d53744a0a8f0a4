//! Reads the groups in all pools, and makes a snapshot of them.
//!
//! Runs on the thread of the caller. The list of processes is copied under its lock, and pools are
//! read without it. Reading a pool in memory never waits. Reading a pool in a file may wait for the
//! disk, so no further pool is read after the timeout; the remaining processes are listed as
//! missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use profiler_core::groups::GroupKind;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::reader::ReadError;
use profiler_core::internal::reader::groups::{GroupReader, PoolGroups};
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;

use super::reader_cache::{PoolGroupReader, ReaderCache};
use super::snapshot::{
    GroupId, GroupRow, GroupsSnapshot, MissingProcess, ProcessGroups, ProcessStanding, RowStatus,
};
use super::stopped_cache::StoppedCache;
use crate::process_table::{GroupSource, ProcessForGroups, ProcessTable};
use crate::session_time::{SessionNs, SessionTime};

/// The largest number of groups of a process that are kept when its pool is closed: those with the
/// most time.
const MAX_FINAL: usize = 64;

/// Reads the groups of all processes. One per session.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    processes: Arc<ProcessTable>,
    time: SessionTime,
    readers: ReaderCache,
    stopped: Mutex<StoppedCache>,
    /// The latest snapshot of a periodic caller, as long as that caller keeps it.
    recent: Mutex<Weak<GroupsSnapshot>>,
}

impl SnapshotReader {
    pub(crate) fn new(processes: Arc<ProcessTable>, time: SessionTime) -> Self {
        let readers = ReaderCache::default();
        let stopped = Mutex::default();
        let recent = Mutex::default();
        Self {
            processes,
            time,
            readers,
            stopped,
            recent,
        }
    }

    /// The time of the session.
    pub(crate) const fn time(&self) -> SessionTime {
        self.time
    }

    /// Returns the current groups of all processes.
    pub(crate) fn snapshot(&self, timeout: Duration) -> GroupsSnapshot {
        self.read_all(timeout, self.candidates(), |process| {
            crate::sys::is_stopped(process.pid)
        })
    }

    /// Returns a snapshot for periodic callers: the latest one that any of them took if it is at
    /// most `age` nanoseconds old, otherwise a new one. With many processes, the information
    /// whether a process is stopped may come from an earlier snapshot.
    pub(crate) fn recent_snapshot(&self, timeout: Duration, age: i64) -> Arc<GroupsSnapshot> {
        let now = self.time.now().0;
        let recent = lock(&self.recent).upgrade();
        if let Some(recent) = recent.filter(|recent| now.saturating_sub(recent.at_ns) <= age) {
            return recent;
        }
        let candidates = self.candidates();
        let stopped = self.stopped_among(&candidates);
        let is_stopped = |process: &ProcessForGroups| stopped.contains(&process.key);
        let snapshot = Arc::new(self.read_all(timeout, candidates, is_stopped));
        *lock(&self.recent) = Arc::downgrade(&snapshot);
        snapshot
    }

    /// Drops the reader of a pool that is no longer needed.
    pub(crate) fn forget_reader(&self, key: PoolId) {
        self.readers.forget(key);
    }

    /// Ends the session: no pool is kept open any more.
    pub(crate) fn close(&self) {
        self.readers.close();
    }

    /// Returns the stopped processes. The lock is held while the system is asked, because the
    /// system answers at once.
    fn stopped_among(&self, candidates: &[ProcessForGroups]) -> BTreeSet<PoolId> {
        let pids: BTreeMap<PoolId, ProcessId> = candidates
            .iter()
            .filter(|one| !one.has_ended)
            .map(|one| (one.key, one.pid))
            .collect();
        let running: Vec<PoolId> = pids.keys().copied().collect();
        let mut stopped = lock(&self.stopped);
        stopped.update(&running, |key| {
            pids.get(&key)
                .is_some_and(|pid| crate::sys::is_stopped(*pid))
        });
        running
            .into_iter()
            .filter(|key| stopped.is_stopped(*key))
            .collect()
    }

    fn read_all(
        &self,
        timeout: Duration,
        candidates: Vec<ProcessForGroups>,
        is_stopped: impl Fn(&ProcessForGroups) -> bool,
    ) -> GroupsSnapshot {
        let converter = self.time.converter();
        let start = Timestamp::now();
        let at = SessionNs(converter.since_start_ns(start));
        let bound = converter.ticks_in(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let date_unix_ns = self.time.date_of(at).0;
        let mut snapshot = GroupsSnapshot {
            at_ns: at.0,
            date_unix_ns,
            ..GroupsSnapshot::default()
        };
        for candidate in candidates {
            let is_late = Timestamp::now().since(start) > bound;
            let groups = if is_late {
                Err("the timeout had passed".to_owned())
            } else {
                self.read(&candidate)
            };
            match groups {
                Ok(groups) => snapshot
                    .processes
                    .push(shown(&candidate, &groups, &is_stopped)),
                Err(why) => {
                    let ProcessForGroups { key, pid, name, .. } = candidate;
                    let pool = key;
                    snapshot.missing.push(MissingProcess {
                        pool,
                        pid,
                        name,
                        why,
                    });
                }
            }
        }
        snapshot
    }

    /// All processes, in the order in which they joined, except those that never asked for memory.
    fn candidates(&self) -> Vec<ProcessForGroups> {
        self.processes
            .for_groups(|has_pool| self.readers.keep_only(has_pool))
    }

    fn read(&self, candidate: &ProcessForGroups) -> Result<Arc<PoolGroups>, String> {
        match &candidate.source {
            GroupSource::Missing(why) => Err(why.clone()),
            GroupSource::Final(groups) => Ok(Arc::clone(groups)),
            GroupSource::Pool(file) => self
                .read_pool(candidate.key, file)
                .map_err(|error| error.to_string()),
        }
    }

    fn read_pool(&self, key: PoolId, file: &Arc<OwnFile>) -> Result<Arc<PoolGroups>, ReadError> {
        let known = self.readers.take(key);
        let mut reader = known.map_or_else(|| GroupReader::open(Arc::clone(file)), Ok)?;
        let groups = reader.read()?;
        self.keep(key, reader);
        Ok(Arc::new(groups))
    }

    /// Keeps a reader for the next snapshot, unless the session has given up its pool meanwhile. A
    /// pool is given up under the lock of the table, and its reader is forgotten afterwards, so no
    /// such reader stays in the cache.
    fn keep(&self, key: PoolId, reader: PoolGroupReader) {
        self.processes
            .while_pool_is_kept(key, || self.readers.keep(key, reader));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn standing(
    process: &ProcessForGroups,
    is_stopped: impl Fn(&ProcessForGroups) -> bool,
) -> ProcessStanding {
    match process.has_ended {
        true => ProcessStanding::Gone,
        false if is_stopped(process) => ProcessStanding::Frozen,
        false => ProcessStanding::Live,
    }
}

fn shown(
    candidate: &ProcessForGroups,
    found: &PoolGroups,
    is_stopped: impl Fn(&ProcessForGroups) -> bool,
) -> ProcessGroups {
    let groups = found.groups.iter().map(|reading| {
        let definition = &reading.definition;
        let is_process = definition.kind == GroupKind::Process;
        GroupRow {
            id: GroupId {
                pool: candidate.key,
                epoch: found.epoch,
                number: reading.index,
            },
            kind: definition.kind,
            name: if is_process {
                candidate.name.clone()
            } else {
                definition.name.clone()
            },
            labels: definition.labels.clone(),
            is_fine: definition.is_fine,
            totals: reading.totals.clone(),
            status: RowStatus::Known,
            last: None,
        }
    });
    ProcessGroups {
        pool: candidate.key,
        pid: candidate.pid,
        name: candidate.name.clone(),
        standing: standing(candidate, is_stopped),
        probes: found.probes,
        left_out: found.left_out,
        groups: groups.collect(),
    }
}

/// The totals of a process whose pool is about to be closed.
pub(crate) fn read_groups(pool: &Arc<OwnFile>) -> Option<PoolGroups> {
    GroupReader::open(Arc::clone(pool))
        .and_then(|mut reader| reader.read())
        .ok()
}

/// The totals that are kept of such a process: those with the most time.
pub(crate) fn largest_groups(mut found: PoolGroups) -> Arc<PoolGroups> {
    found.groups.retain(|group| !group.totals.is_idle());
    if found.groups.len() > MAX_FINAL {
        found
            .groups
            .sort_by_key(|group| std::cmp::Reverse((group.totals.wall_ns, group.totals.ticks)));
        found.left_out = found
            .left_out
            .saturating_add((found.groups.len() - MAX_FINAL) as u64);
        found.groups.truncate(MAX_FINAL);
        found.groups.sort_by_key(|group| group.index);
    }
    found.groups.shrink_to_fit();
    Arc::new(found)
}
