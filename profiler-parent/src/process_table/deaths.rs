//! The ends of recordings: a process ends or executes another program, its pool is taken over, its
//! old data is destroyed, and in the end the pool is closed.
//!
//! Part of the [`ProcessTable`]. Used by the supervisor. Invariants: a process's entry counts are
//! kept when its pool is closed; a life ends once.

use std::process::ExitStatus;
use std::sync::Arc;

use profiler_core::ids::PoolId;
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::reader::groups::PoolGroups;
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;

use super::session_sums::{ClosedPool, GroupKey, GroupSum, LastNumbers, ProcessName};
use super::{ProcessDeath, ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::controller::DeadPoolMemory;
use crate::gather::panic_evidence::PanicEvidence;
use crate::gather::verdict::Why;

/// A dead process that has a pool. Those that died first come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeadPoolEntry {
    pub(crate) died: Option<Timestamp>,
    pub(crate) key: PoolId,
}

/// What is read of the groups in a pool before it is closed.
#[derive(Debug, Default)]
pub(crate) struct FinalGroups {
    /// For the sums of the session, those of the program first. None if they cannot be read.
    pub(crate) sums: Vec<(GroupKey, GroupSum)>,
    /// Those that are kept with the process; `None` if they cannot be read.
    pub(crate) kept: Option<Arc<PoolGroups>>,
}

impl ProcessTable {
    /// Notes the end of a process. Returns whether its recording ends with it: not if it has ended
    /// before, or the entry is that of an earlier program of the process.
    pub(crate) fn note_exit(&self, key: PoolId, status: Option<ExitStatus>) -> bool {
        self.end_earlier_programs(key, status);
        let has_ended = self.change(key, |process| {
            let has_ended = process.has_executed || process.is_over();
            if has_ended {
                process.note_later_exit(status);
            }
            has_ended
        });
        has_ended == Some(false)
    }

    /// Whether the recording of a process has ended.
    #[cfg(observing)]
    pub(crate) fn is_over(&self, key: PoolId) -> bool {
        self.lock().get(&key).is_some_and(TrackedProcess::is_over)
    }

    /// Notes the end of a process without its consequences, when no supervisor runs.
    pub(crate) fn note_exit_alone(&self, key: PoolId, status: Option<ExitStatus>) {
        let death = self.change(key, |process| {
            process.state = ProcessState::Exited(status);
            process.died = Some(Timestamp::now());
            process.death()
        });
        death
            .flatten()
            .into_iter()
            .for_each(|death| self.note_death(death));
    }

    /// Notes that a process executes another program. Returns whether its recording ends with that:
    /// not if it has ended before.
    pub(crate) fn note_exec(&self, key: PoolId) -> bool {
        let known = self.change(key, |process| {
            let is_over = process.is_over();
            process.has_executed |= !is_over;
            (is_over, process.pid)
        });
        let executed = known.filter(|(is_over, _)| !is_over);
        if let Some((_, pid)) = executed {
            self.executed.insert(pid);
        }
        executed.is_some()
    }

    /// Ends the recording of a process: hangs up its channel and takes over its pool. Returns the
    /// content of the pool; `None` if it never had a pool.
    pub(crate) fn take_over_pool(
        &self,
        key: PoolId,
        state: ProcessState,
        died: Timestamp,
    ) -> Option<DeadPoolMemory> {
        let ended = self.change(key, |process| {
            let content = process.take_over_pool(state, died);
            (content, process.death())
        });
        let (content, death) = ended.unwrap_or_default();
        death.into_iter().for_each(|death| self.note_death(death));
        if content.is_none() {
            self.note_empty(key);
        }
        content
    }

    /// How the recording of a process has ended.
    pub(crate) fn why_ended(&self, key: PoolId) -> Why {
        let why_ended = |process: &TrackedProcess| match process.state {
            ProcessState::Exited(status) => process.why_ended(status),
            _ => process.why_another_life(),
        };
        self.lock().get(&key).map_or(Why::Gone, why_ended)
    }

    /// The dead processes that have a pool, in no order.
    pub(crate) fn dead_pools(&self) -> Vec<DeadPoolEntry> {
        let all = self.lock();
        let dead = all
            .iter()
            .filter(|(_, process)| process.dead_pool.is_some());
        dead.map(|(key, process)| DeadPoolEntry {
            died: process.died,
            key: *key,
        })
        .collect()
    }

    /// Destroys the chunks up to `at` in the pool of a dead process. Returns the bytes that are now
    /// charged for the pool.
    pub(crate) fn destroy_data(&self, key: PoolId, at: Timestamp) -> u64 {
        let destroyed = self.change(key, |process| {
            let dead_pool = process.dead_pool.as_mut()?;
            let held = dead_pool
                .destroy_at_or_before(at)
                .or_else(|_| dead_pool.held_bytes())
                .ok()?;
            Some(process.charge(held))
        });
        destroyed.flatten().unwrap_or(0)
    }

    /// Closes the pool of a dead process. `read` reads the groups in it; its first argument is the
    /// name of the process. Adds the groups and the entry counts to the sums of the session.
    pub(crate) fn close_pool(
        &self,
        key: PoolId,
        read: impl FnOnce(&str, &Arc<OwnFile>) -> FinalGroups,
    ) {
        self.close_pool_with(key, |process| process.drop_pool(read));
    }

    /// Closes the pool of a process with `close`, which returns what the process has done.
    pub(super) fn close_pool_with(
        &self,
        key: PoolId,
        close: impl FnOnce(&mut TrackedProcess) -> Option<ClosedPool>,
    ) {
        let mut all = self.lock();
        let closed = all.get_mut(&key).and_then(|process| {
            let closed = close(process)?;
            let name = ProcessName::new(&process.name);
            Some(LastNumbers::Pool { key, name, closed })
        });
        drop(all);
        closed.into_iter().for_each(|last| self.sums.add(last));
        self.changed.notify_all();
    }
}

impl TrackedProcess {
    /// Its death. `None` if it runs, executes another program, or is not shown.
    fn death(&self) -> Option<ProcessDeath> {
        let ProcessState::Exited(status) = self.state else {
            return None;
        };
        (!self.is_left_out).then(|| ProcessDeath {
            process: self.pid,
            name: self.name.clone(),
            why: self.why_ended(status),
        })
    }

    /// Notes the end of a process whose recording has ended before. A known status is kept.
    fn note_later_exit(&mut self, status: Option<ExitStatus>) {
        let is_known = matches!(self.state, ProcessState::Exited(Some(_)));
        if status.is_some() || !is_known {
            self.state = ProcessState::Exited(status);
        }
    }

    /// Handles the end of the recording: takes over the pool, and returns the pool's content.
    fn take_over_pool(&mut self, state: ProcessState, died: Timestamp) -> Option<DeadPoolMemory> {
        self.state = state;
        self.died = Some(died);
        self.hang_up(); // ends its receive thread; a fork may hold the channel
        self.part_file = None;
        let Remains::Pool(file) = &self.remains else {
            return None;
        };
        if let Ok(reader) = PoolReader::open(&**file) {
            self.has_closed_its_pool = reader.header().is_closed();
            self.panics = PanicEvidence::read(&reader);
        }
        let dead_pool = DeadPool::open(Arc::clone(file), died);
        let dead_pool = dead_pool
            .map_err(|error| self.damage = Some(error.to_string()))
            .ok();
        let true_bytes = self.charge(self.true_bytes());
        let chunks = dead_pool.as_ref().map(DeadPool::chunks).unwrap_or_default();
        let in_chunks: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
        self.dead_pool = dead_pool;
        Some(DeadPoolMemory {
            true_bytes,
            unreleased_bytes: true_bytes.saturating_sub(in_chunks),
            chunks,
        })
    }

    /// Keeps the entry counts and closes the pool. Returns what the process has done.
    fn drop_pool(
        &mut self,
        read: impl FnOnce(&str, &Arc<OwnFile>) -> FinalGroups,
    ) -> Option<ClosedPool> {
        self.dead_pool = None;
        self.files = None;
        let Remains::Pool(file) = &self.remains else {
            return None;
        };
        let FinalGroups { sums, kept } = read(&self.name, file);
        self.groups = kept;
        let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
        if let Err(error) = &snapshot {
            self.damage.get_or_insert_with(|| error.to_string());
        }
        let counts = snapshot
            .map(|snapshot| snapshot.counts())
            .unwrap_or_default();
        self.remains = Remains::Expired(counts);
        Some(ClosedPool {
            counts,
            groups: sums,
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use profiler_core::ids::{ByteLimit, ProcessId};
    use profiler_core::internal::pool::PoolSpec;
    use profiler_core::internal::pool::layout::Life;
    use profiler_core::session::SessionParams;

    use super::*;

    const KEY: PoolId = PoolId::new(1);

    /// A table with one process, whose pool has this life. The process has said nothing.
    fn silent(life: Life) -> ProcessTable {
        let limit = ByteLimit::new(1 << 20);
        let spec = PoolSpec {
            id: KEY,
            limit,
            allowance: limit,
            ..PoolSpec::starting_now(SessionParams::default()).unwrap()
        };
        let file = spec.create_pool().unwrap();
        let mut header = PoolReader::open(&file).unwrap().header().clone();
        header.life = life;
        header.write_to(&file).unwrap();
        let pool = Remains::Pool(Arc::new(OwnFile::from(file)));
        let (pid, state) = (ProcessId::new(7), ProcessState::Starting);
        let table = ProcessTable::default();
        table.add(KEY, TrackedProcess::new("silent", pid, state, pool));
        table
    }

    fn end(table: &ProcessTable) {
        let exited = ProcessState::Exited(Some(ExitStatus::from_raw(0)));
        table.take_over_pool(KEY, exited, Timestamp::now());
    }

    #[test]
    fn a_process_that_never_attached_its_pool_never_connected_before_and_after_it_is_closed() {
        let table = silent(Life::Created);
        end(&table);
        assert_eq!(table.why_unable(KEY), Some(Why::NeverConnected));
        table.close_pool(KEY, |_, _| FinalGroups::default());
        assert!(table.dead_pools().is_empty());
        assert_eq!(table.why_unable(KEY), Some(Why::NeverConnected));
    }

    #[test]
    fn a_process_that_attached_its_pool_has_exited() {
        for life in [Life::Attached, Life::Closed] {
            let table = silent(life);
            end(&table);
            assert_eq!(table.why_unable(KEY), Some(Why::Exited { status: 0 }));
        }
    }
}
