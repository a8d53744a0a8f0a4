//! Handles processes that have ended: takes over their pools, destroys old data, and closes empty
//! pools.
//!
//! Part of the supervisor's thread. Invariants: the entry counts of a process are kept when its
//! pool is closed; the pools of dead processes use at most a quarter of the descriptors.

use std::process::ExitStatus;
use std::sync::Arc;

use profiler_core::ids::PoolId;
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::pool::layout::Life;
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::sys;
use profiler_core::time::Timestamp;

use super::control_loop::{ControlLoop, forward};
use crate::controller::{DeadPoolMemory, Event};
use crate::gather::panic_evidence::PanicEvidence;
use crate::gather::state::Input;
use crate::gather::verdict::Why;
use crate::groups::{largest_groups, read_groups};
use crate::process_table::session_sums::{ClosedPool, sums_in_pool};
use crate::process_table::{Process, ProcessState, Remains};

impl ControlLoop {
    /// Handles the end of a process.
    pub(super) fn exited(&mut self, key: PoolId, status: Option<ExitStatus>) {
        let state = ProcessState::Exited(status);
        self.context.processes.end_earlier_programs(key, status);
        let has_executed = self.context.processes.change(key, |process| {
            if process.has_executed {
                process.state = state.clone(); // its pool is that of an earlier program
            }
            process.has_executed
        });
        if has_executed == Some(false) {
            self.end_life(key, state);
        }
    }

    /// Handles a process that executes another program. Its pool is kept like that of a dead
    /// process.
    pub(super) fn executed(&mut self, key: PoolId) {
        let is_over = self.context.processes.change(key, |process| {
            let is_over = process.is_over();
            process.has_executed |= !is_over;
            is_over
        });
        if is_over == Some(false) {
            self.end_life(key, ProcessState::Executed);
        }
    }

    /// Takes over the pool of a process whose recording has ended.
    fn end_life(&mut self, key: PoolId, state: ProcessState) {
        let died = Timestamp::now();
        self.links.remove(&key);
        let buried = self
            .context
            .processes
            .change(key, |process| bury(process, state, died))
            .flatten();
        if let Some(pool) = buried {
            self.account(Event::Died { key, pool });
        } else {
            self.context.processes.note_empty(key); // it never had a pool
        }
        if let Some((_, inputs)) = &self.capture {
            let why_ended = |process: &Process| match process.state {
                ProcessState::Exited(status) => process.why_ended(status),
                _ => Why::Executed,
            };
            let why = self.context.processes.lock().get(&key).map(why_ended);
            let why = why.unwrap_or(Why::Gone);
            forward(inputs, Input::Died { child: key, why });
        }
        self.limit_dead_pools();
    }

    /// Limits the number of dead processes with a pool, because each pool uses a descriptor. Beyond
    /// the limit, the processes that died first lose their data, as if it were too old for the
    /// memory limit.
    fn limit_dead_pools(&mut self) {
        let mut dead: Vec<(Option<Timestamp>, PoolId)> = {
            let all = self.context.processes.lock();
            let dead_pools = all
                .iter()
                .filter(|(_, process)| process.dead_pool.is_some());
            dead_pools
                .map(|(key, process)| (process.died, *key))
                .collect()
        };
        let most = most_dead_pools();
        if dead.len() > most {
            dead.sort_unstable();
            for (_, key) in dead.iter().take(dead.len() - most) {
                let held_bytes = self.destroy_dead(*key, Timestamp::MAX);
                self.account(Event::DeadDestroyed {
                    key: *key,
                    held_bytes,
                });
            }
        }
    }

    /// Destroys the chunks up to `at` in the pool of a dead process. Returns the bytes that are now
    /// charged for the pool.
    pub(super) fn destroy_dead(&self, key: PoolId, at: Timestamp) -> u64 {
        let destroyed = self.context.processes.change(key, |process| {
            let dead_pool = process.dead_pool.as_mut()?;
            let held = dead_pool
                .destroy_at_or_before(at)
                .or_else(|_| dead_pool.held_bytes())
                .ok()?;
            Some(process.charge(held))
        });
        destroyed.flatten().unwrap_or(0)
    }

    /// Destroys data that has left the duration window in the pools of dead processes.
    pub(super) fn expire_dead_pools(&mut self) {
        let ticks = self
            .context
            .time
            .converter()
            .ticks_in(self.context.params.window_ns);
        let Some(oldest) = Timestamp::now()
            .raw()
            .checked_sub(ticks)
            .map(Timestamp::from_raw)
        else {
            return;
        };
        let dead: Vec<PoolId> = {
            let all = self.context.processes.lock();
            all.iter()
                .filter(|(_, process)| process.dead_pool.is_some())
                .map(|(key, _)| *key)
                .collect()
        };
        for key in dead {
            let held_bytes = self.destroy_dead(key, oldest);
            self.account(Event::DeadDestroyed { key, held_bytes });
        }
    }

    /// Closes the empty pool of a dead process.
    pub(super) fn drop_dead(&self, key: PoolId) {
        self.context.processes.close_pool(key, drop_pool);
        self.context.groups.forget_reader(key);
        self.context.forget_pool(key);
        self.context.processes.note_empty(key);
    }
}

/// The largest number of pools of dead processes that are kept: a quarter of all descriptors.
fn most_dead_pools() -> usize {
    usize::try_from(crate::sys::descriptor_limit() / 4)
        .unwrap_or(usize::MAX)
        .max(16)
}

/// Handles a process whose recording has ended: takes over its pool, and returns the pool's
/// content.
fn bury(process: &mut Process, state: ProcessState, died: Timestamp) -> Option<DeadPoolMemory> {
    process.state = state;
    process.died = Some(died);
    process.hang_up(); // ends its receive thread; a fork may hold the channel
    process.part_file = None;
    let Remains::Pool(file) = &process.remains else {
        return None;
    };
    if let Ok(reader) = PoolReader::open(&**file) {
        process.has_closed_its_pool = reader.header().life == Life::Closed;
        process.panics = PanicEvidence::read(&reader);
    }
    let dead_pool = DeadPool::open(Arc::clone(file), died);
    let dead_pool = dead_pool
        .map_err(|error| process.damage = Some(error.to_string()))
        .ok();
    let true_bytes = process.charge(
        file.get()
            .map_or(0, |file| sys::allocated_bytes(file).unwrap_or(0)),
    );
    let chunks = dead_pool.as_ref().map(DeadPool::chunks).unwrap_or_default();
    let in_chunks: u64 = chunks.iter().map(|chunk| chunk.bytes).sum();
    process.dead_pool = dead_pool;
    Some(DeadPoolMemory {
        true_bytes,
        unreleased_bytes: true_bytes.saturating_sub(in_chunks),
        chunks,
    })
}

/// Keeps the entry counts of a dead process and closes its pool. Returns what the process has done.
fn drop_pool(process: &mut Process) -> Option<ClosedPool> {
    process.dead_pool = None;
    process.files = None;
    let Remains::Pool(file) = &process.remains else {
        return None;
    };
    let all_groups = read_groups(file);
    let groups = all_groups
        .as_ref()
        .map(|groups| sums_in_pool(&process.name, groups))
        .unwrap_or_default();
    process.groups = all_groups.map(largest_groups);
    let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
    if let Err(error) = &snapshot {
        process.damage.get_or_insert_with(|| error.to_string());
    }
    let counts = snapshot
        .map(|snapshot| snapshot.counts())
        .unwrap_or_default();
    process.remains = Remains::Expired(counts);
    Some(ClosedPool { counts, groups })
}
