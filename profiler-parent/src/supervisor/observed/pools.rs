//! The supervisor's side of observed programs: which pools the reader writes, and how to reach it.
//!
//! Part of the supervisor's thread. Invariant: nothing here waits for the reader.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use profiler_core::ids::{ByteLimit, PoolId, ProcessId};
use profiler_core::time::Timestamp;

use super::ReaderProgress;
use super::reader_commands::{CommandSender, ReaderCommand};

/// The maximum number of checks in which the reader does nothing while the supervisor waits for it to
/// answer about the end of a process. After that, the supervisor handles the end without the reader.
/// A check is made twice per second.
const MAX_SILENT_CHECKS: u32 = 10;

/// The end of a process that was reported to the reader.
#[derive(Clone, Copy, Debug)]
struct ToldEnd {
    /// The exit status, if it is known.
    status: Option<ExitStatus>,
}

/// The pools that the reader writes.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct ObservedPools {
    /// To the reader; `None` if no program is observed.
    commands: Option<CommandSender>,
    /// The pools, each with the end of its process if that was reported to the reader.
    all: BTreeMap<PoolId, Option<ToldEnd>>,
    is_paused: bool,
    /// What the reader has done, and how much of it the last check has seen.
    progress: Arc<ReaderProgress>,
    steps: u64,
    /// The checks in which the reader has done nothing.
    silent_checks: u32,
}

impl ObservedPools {
    /// Programs are observed from now on.
    pub(in crate::supervisor) fn begin(
        &mut self,
        commands: CommandSender,
        progress: Arc<ReaderProgress>,
    ) {
        self.progress = progress;
        let _ = commands.send(ReaderCommand::Pause(self.is_paused));
        self.commands = Some(commands);
    }

    /// Adds a pool.
    pub(in crate::supervisor) fn add(&mut self, key: PoolId) {
        self.all.entry(key).or_default();
    }

    /// Removes the pool of a program that has ended. Returns `None` if the reader does not write
    /// this pool. Otherwise, returns the end of the process if it was reported to the reader, with
    /// the exit status if that is known.
    pub(in crate::supervisor) fn remove(
        &mut self,
        key: PoolId,
    ) -> Option<Option<Option<ExitStatus>>> {
        let told = self.all.remove(&key)?;
        Some(told.map(|told| told.status))
    }

    /// Tells the reader that a process has ended, if its pool is one of these or `may_be_new`. The
    /// reader answers with [`ObservedEvent::Ended`](super::ObservedEvent::Ended). Returns false if
    /// the reader is not told.
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
        let is_told = commands.send(ReaderCommand::Ended { key }).is_ok();
        if is_told {
            self.all.insert(key, Some(ToldEnd { status }));
        }
        is_told
    }

    /// Makes a check. If the reader has done nothing for more than [`MAX_SILENT_CHECKS`] checks,
    /// removes the pools for which it has to report the end, and returns them with the exit status
    /// of their processes.
    pub(in crate::supervisor) fn take_overdue(&mut self) -> Vec<(PoolId, Option<ExitStatus>)> {
        let owed = self.all.iter();
        let owed = owed.filter_map(|(key, told)| Some((*key, (*told)?.status)));
        let owed: Vec<_> = owed.collect();
        let steps = self.progress.steps.load(Ordering::Relaxed);
        let goes_on = std::mem::replace(&mut self.steps, steps) != steps;
        self.silent_checks = if owed.is_empty() || goes_on {
            0
        } else {
            self.silent_checks.saturating_add(1)
        };
        if self.silent_checks <= MAX_SILENT_CHECKS {
            return Vec::new();
        }
        self.silent_checks = 0;
        self.all.retain(|_, told| told.is_none());
        owed
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

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PoolId = PoolId::new(7);

    #[test]
    fn the_end_of_a_process_is_not_waited_for_if_the_reader_is_silent() {
        let (commands, _orders) = super::super::reader_commands::channel();
        let mut pools = ObservedPools::default();
        let progress = Arc::<ReaderProgress>::default();
        pools.begin(commands, Arc::clone(&progress));
        pools.add(KEY);
        for _ in 0..=MAX_SILENT_CHECKS {
            assert!(pools.take_overdue().is_empty(), "it owes nothing");
        }
        assert!(pools.ends(KEY, None, || false));
        for _ in 0..MAX_SILENT_CHECKS {
            assert!(pools.take_overdue().is_empty());
        }
        progress.steps.fetch_add(1, Ordering::Relaxed);
        assert!(pools.take_overdue().is_empty(), "it goes on");
        for _ in 0..MAX_SILENT_CHECKS {
            assert!(pools.take_overdue().is_empty());
        }
        assert_eq!(pools.take_overdue(), [(KEY, None)]);
        assert_eq!(pools.remove(KEY), None, "its end was handled");
    }
}
