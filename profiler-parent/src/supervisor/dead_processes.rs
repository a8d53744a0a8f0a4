//! Handles processes that have ended: takes over their pools, destroys old data, and closes empty
//! pools.
//!
//! Part of the supervisor's thread. Invariants: the entry counts of a process are kept when its
//! pool is closed; the pools of dead processes use at most a quarter of the descriptors.

use std::process::ExitStatus;
use std::sync::Arc;

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;

use super::control_loop::{ControlLoop, forward};
use crate::controller::Event;
use crate::gather::state::Input;
use crate::groups::{largest_groups, read_groups};
use crate::process_table::session_sums::sums_in_pool;
use crate::process_table::{DeadPoolEntry, FinalGroups, ProcessState};

impl ControlLoop {
    /// Handles the end of a process.
    pub(super) fn exited(&mut self, key: PoolId, status: Option<ExitStatus>) {
        let status = status.or_else(|| self.context.processes.told_status(key));
        if self.context.processes.note_exit(key, status) {
            self.end_life(key, ProcessState::Exited(status));
        }
    }

    /// Handles a process that executes another program. Its pool is kept like that of a dead
    /// process.
    pub(super) fn executed(&mut self, key: PoolId) {
        if self.context.processes.note_exec(key) {
            self.end_life(key, ProcessState::Executed);
        }
    }

    /// Takes over the pool of a process whose recording has ended.
    fn end_life(&mut self, key: PoolId, state: ProcessState) {
        let died = Timestamp::now();
        self.links.remove(&key);
        let pool = self.context.processes.take_over_pool(key, state, died);
        if let Some(pool) = pool {
            self.account(Event::Died { key, pool });
        }
        if let Some((_, inputs)) = &self.capture {
            let why = self.context.processes.why_ended(key);
            forward(inputs, Input::Died { child: key, why });
        }
        self.limit_dead_pools();
    }

    /// Limits the number of dead processes with a pool, because each pool uses a descriptor. Beyond
    /// the limit, the processes that died first lose their data, as if it were too old for the
    /// memory limit. The processes are counted only if there may be too many, because the table may
    /// be large.
    fn limit_dead_pools(&mut self) {
        let most = most_dead_pools();
        self.dead_pools_at_most = self.dead_pools_at_most.saturating_add(1);
        if self.dead_pools_at_most <= most {
            return;
        }
        let mut dead = self.context.processes.dead_pools();
        self.dead_pools_at_most = dead.len();
        if dead.len() <= most {
            return;
        }
        dead.sort_unstable();
        // More are removed than necessary, so that they are counted less often.
        let kept = most - most / 16;
        for DeadPoolEntry { key, .. } in dead.iter().take(dead.len() - kept) {
            let held_bytes = self.destroy_dead(*key, Timestamp::MAX);
            self.account(Event::DeadDestroyed {
                key: *key,
                held_bytes,
            });
        }
        self.dead_pools_at_most = kept;
    }

    /// Destroys the chunks up to `at` in the pool of a dead process. Returns the bytes that are now
    /// charged for the pool.
    pub(super) fn destroy_dead(&self, key: PoolId, at: Timestamp) -> u64 {
        self.context.processes.destroy_data(key, at)
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
        for DeadPoolEntry { key, .. } in self.context.processes.dead_pools() {
            let held_bytes = self.destroy_dead(key, oldest);
            self.account(Event::DeadDestroyed { key, held_bytes });
        }
    }

    /// Closes the empty pool of a dead process.
    pub(super) fn drop_dead(&self, key: PoolId) {
        self.context.processes.close_pool(key, final_groups);
        self.context.groups.forget_reader(key);
        self.context.forget_pool(key);
        self.context.processes.note_empty(key);
    }
}

/// The largest number of pools of dead processes that are kept: a quarter of all descriptors.
fn most_dead_pools() -> usize {
    usize::try_from(profiler_sys::descriptor_limit() / 4)
        .unwrap_or(usize::MAX)
        .max(16)
}

/// The groups in a pool that is closed, for the sums of the session and for its process.
fn final_groups(name: &str, pool: &Arc<OwnFile>) -> FinalGroups {
    let all_groups = read_groups(pool);
    let sums = all_groups
        .as_ref()
        .map(|groups| sums_in_pool(name, groups))
        .unwrap_or_default();
    FinalGroups {
        sums,
        kept: all_groups.map(largest_groups),
    }
}
