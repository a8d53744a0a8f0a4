//! The supervisor's side of observed programs: which pools the reader writes, and how to reach it.
//!
//! Part of the supervisor's thread. Invariant: nothing here waits for the reader.

use std::collections::BTreeMap;
use std::process::ExitStatus;

use crossbeam_channel::Sender;
use profiler_core::ids::{ByteLimit, PoolId, ProcessId};
use profiler_core::time::Timestamp;

use super::ReaderCommand;

/// The pools that the reader writes.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct ObservedPools {
    /// To the reader; `None` if no program is observed.
    commands: Option<Sender<ReaderCommand>>,
    /// Each with the end of its process, if that was told, and its status, if that is known.
    all: BTreeMap<PoolId, Option<Option<ExitStatus>>>,
    is_paused: bool,
}

impl ObservedPools {
    /// Programs are observed from now on.
    pub(in crate::supervisor) fn begin(&mut self, commands: Sender<ReaderCommand>) {
        let _ = commands.send(ReaderCommand::Pause(self.is_paused));
        self.commands = Some(commands);
    }

    /// Adds a pool.
    pub(in crate::supervisor) fn add(&mut self, key: PoolId) {
        self.all.entry(key).or_default();
    }

    /// Removes the pool of a program that has ended. Returns the end of its process, if that was
    /// told, and its status, if that is known.
    pub(in crate::supervisor) fn remove(&mut self, key: PoolId) -> Option<Option<ExitStatus>> {
        self.all.remove(&key)?
    }

    /// Tells the reader that a process has ended, if its pool is one of these or `may_be_new`. The
    /// reader answers with [`SupervisorEvent::ObservedEnded`](super::super::SupervisorEvent). False
    /// if it is not told.
    pub(in crate::supervisor) fn ends(
        &mut self,
        key: PoolId,
        status: Option<ExitStatus>,
        may_be_new: impl FnOnce() -> bool,
    ) -> bool {
        let Some(commands) = &self.commands else {
            return false;
        };
        if !self.all.contains_key(&key) && !may_be_new() {
            return false;
        }
        self.all.insert(key, Some(status));
        commands.send(ReaderCommand::Ended { key }).is_ok()
    }

    /// Tells the reader that a process has a recorder of its own.
    pub(in crate::supervisor) fn records_itself(&self, pid: ProcessId) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(ReaderCommand::RecordsItself { pid });
        }
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
        if let Some(commands) = &self.commands {
            let _ = commands.send(ReaderCommand::Pause(is_paused));
        }
    }

    fn send(&self, key: PoolId, command: ReaderCommand) -> bool {
        let commands = self.commands.as_ref();
        let commands = commands.filter(|_| self.all.contains_key(&key));
        commands.is_some_and(|commands| commands.send(command).is_ok())
    }
}
