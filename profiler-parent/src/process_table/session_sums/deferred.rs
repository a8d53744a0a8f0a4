//! The sums of a session, for the threads that read them and those that notice the end of a
//! process.
//!
//! Part of the [`ProcessTable`](crate::process_table::ProcessTable). Invariants: the end of a
//! process never waits for a reading; what has ended is in the sums before the next reading; the
//! ends that wait are those of one reading, because a thread that adds one adds all that wait,
//! unless a reading runs.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use profiler_core::ids::PoolId;

use super::{ClosedPool, ProcessName, ProcessSum, SessionSums};

/// The last numbers of a process.
#[derive(Debug)]
pub(in crate::process_table) enum LastNumbers {
    /// Those of its pool, which is closed.
    Pool {
        key: PoolId,
        name: ProcessName,
        closed: ClosedPool,
    },
    /// Those of its life. It is no longer listed. Follows its pool.
    Life {
        key: PoolId,
        name: ProcessName,
        life: ProcessSum,
    },
}

/// The sums of a session. See the head of this file.
#[derive(Debug, Default)]
pub(in crate::process_table) struct DeferredSums {
    /// Held by a reading, which locks the process table meanwhile. So no thread waits for it with
    /// the table locked.
    sums: Mutex<SessionSums>,
    /// Locked last, and only to add or to take.
    ended: Mutex<Vec<LastNumbers>>,
}

impl DeferredSums {
    /// Adds the last numbers of a process, which the table no longer has.
    pub(in crate::process_table) fn add(&self, last: LastNumbers) {
        locked(&self.ended).push(last);
        match self.sums.try_lock() {
            Ok(mut sums) => self.settle(&mut sums),
            Err(TryLockError::Poisoned(error)) => self.settle(&mut error.into_inner()),
            Err(TryLockError::WouldBlock) => {} // the next reading, or the next end, adds it
        }
    }

    /// Locks the sums, with all that has ended.
    pub(crate) fn lock(&self) -> MutexGuard<'_, SessionSums> {
        let mut sums = locked(&self.sums);
        self.settle(&mut sums);
        sums
    }

    fn settle(&self, sums: &mut SessionSums) {
        let ended = mem::take(&mut *locked(&self.ended));
        for last in ended {
            match last {
                LastNumbers::Pool { key, name, closed } => sums.close_pool(key, &name, &closed),
                LastNumbers::Life { key, name, life } => sums.end_process(key, &name, &life),
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
