//! The supervisor's side of observed programs: which pools the reader writes, and how to reach it.
//!
//! Part of the supervisor's thread. Invariant: nothing here waits for the reader.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use crossbeam_channel::Sender;
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::time::Timestamp;

use super::ReaderCommand;

/// A pool that the reader writes.
#[derive(Debug)]
struct ObservedPool {
    commands: Sender<ReaderCommand>,
    /// How its process has ended, if it has.
    status: Option<ExitStatus>,
}

/// The pools that the reader writes.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct ObservedPools {
    all: BTreeMap<PoolId, ObservedPool>,
    is_paused: bool,
}

impl ObservedPools {
    /// Adds a pool.
    pub(in crate::supervisor) fn add(&mut self, key: PoolId, commands: Sender<ReaderCommand>) {
        let _ = commands.send(ReaderCommand::Pause(self.is_paused));
        self.all.insert(
            key,
            ObservedPool {
                commands,
                status: None,
            },
        );
    }

    /// Removes the pool of a program that has ended; returns how its process has ended, if that is
    /// known.
    pub(in crate::supervisor) fn remove(&mut self, key: PoolId) -> Option<ExitStatus> {
        self.all.remove(&key)?.status
    }

    /// Tells the reader that a process has ended. False if its pool is another one's.
    pub(in crate::supervisor) fn ends(&mut self, key: PoolId, status: Option<ExitStatus>) -> bool {
        let Some(pool) = self.all.get_mut(&key) else {
            return false;
        };
        pool.status = status;
        let _ = pool.commands.send(ReaderCommand::Ended { key });
        true
    }

    /// Sets the bytes that a pool may hold. False if it is another one's.
    pub(in crate::supervisor) fn set_allowance(&self, key: PoolId, allowance: ByteLimit) -> bool {
        self.send(key, ReaderCommand::SetAllowance { key, allowance })
    }

    /// Destroys released chunks up to this time. False if the pool is another one's.
    pub(in crate::supervisor) fn destroy(&self, key: PoolId, at_or_before: Timestamp) -> bool {
        self.send(key, ReaderCommand::Destroy { key, at_or_before })
    }

    /// Lets the reader record nothing, or go on.
    pub(in crate::supervisor) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
        // There is one reader.
        if let Some(pool) = self.all.values().next() {
            let _ = pool.commands.send(ReaderCommand::Pause(is_paused));
        }
    }

    fn send(&self, key: PoolId, command: ReaderCommand) -> bool {
        let pool = self.all.get(&key);
        if let Some(pool) = pool {
            let _ = pool.commands.send(command);
        }
        pool.is_some()
    }
}
