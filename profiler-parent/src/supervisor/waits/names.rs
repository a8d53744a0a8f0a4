//! The names of the labels that show for whom threads wait.
//!
//! Used by the reader of observed programs in each look, and by the service for the questions of
//! other processes. `profiler-waits` finds the processes; this module gives them the names that
//! they have in the session. Invariant: a wait that no other process or
//! thread can end has no label, because the function in which the thread waits describes it.

use std::sync::Arc;

use ipc_protocol::limits;
use profiler_core::ids::ProcessId;
#[cfg(observing)]
use profiler_core::internal::observed::{AwaitedName, WaitingThread};
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_json::{Awaited, Numbered, WaitLabel};
use profiler_waits::{
    Blocker, Holders, ReadMemory, ThreadKey, WaitResolver, WaitTarget, WaitingCall, are_stuck,
};

use super::SharedWaitNames;
use super::deadlocks::{DeadlockWatch, PossibleDeadlock, StuckThread};
use crate::process_table::{DeadlockedWait, ProcessTable};

/// The maximum number of processes that one name lists.
const MAX_LISTED: usize = 3;

/// Finds for whom threads wait.
#[derive(Debug)]
pub(in crate::supervisor) struct WaitNames {
    resolver: WaitResolver,
    processes: Arc<ProcessTable>,
    deadlocks: DeadlockWatch,
}

impl WaitNames {
    pub(in crate::supervisor) fn new(processes: Arc<ProcessTable>) -> Self {
        Self {
            resolver: WaitResolver::new(),
            processes,
            deadlocks: DeadlockWatch::new(),
        }
    }

    /// For whom a thread of an observed process waits.
    #[cfg(observing)]
    pub(in crate::supervisor) fn for_whom(
        &mut self,
        pid: ProcessId,
        waiting: &WaitingThread<'_>,
    ) -> AwaitedName {
        let call = WaitingCall {
            number: waiting.call,
            arguments: waiting.arguments,
        };
        let Ok(thread) = u32::try_from(waiting.thread.get()) else {
            return AwaitedName::None;
        };
        let mut memory = |address: u64, room: &mut [u8]| waiting.read(address, room);
        match self.name_of((pid, thread), call, &mut memory) {
            Some(name) => name.map_or(AwaitedName::None, AwaitedName::Known),
            None => AwaitedName::NotLookedUp,
        }
    }

    /// Answers a process that asks for a wait of one of its threads. `None` if this cannot be
    /// looked up now.
    pub(super) fn answer(&mut self, pid: ProcessId, wait: &AskedWait) -> Option<NamedWait> {
        let call = WaitingCall {
            number: wait.call,
            arguments: wait.arguments,
        };
        let mut memory = |address: u64, room: &mut [u8]| wait.read(address, room);
        // A process that has ended, or has no such thread, gets the answer that nothing is known.
        let thread = profiler_waits::thread_of(pid.get(), wait.thread);
        let name = match thread {
            Some(thread) => self.name_of((pid, thread), call, &mut memory)?,
            None => None,
        };
        Some(NamedWait {
            number: wait.number,
            name: name.map(clipped),
        })
    }

    /// The name of a thread's wait, if a process or a thread is known that can end it. `None` if
    /// this cannot be looked up now.
    fn name_of(
        &mut self,
        (pid, thread): (ProcessId, u32),
        call: WaitingCall,
        memory: ReadMemory<'_>,
    ) -> Option<Option<String>> {
        let processes = &self.processes;
        let all = || processes.running();
        let here = (pid.get(), thread);
        let target = self.resolver.resolve(here, &call, &all, memory)?;
        let blocker = Blocker::of(pid.get(), &call, &target);
        let name = self.name(pid, target);
        let key = ThreadKey {
            process: pid.get(),
            thread,
        };
        self.deadlocks.note(key, blocker.zip(name.clone()));
        Some(name)
    }

    /// A deadlock of noted waits, if a check is due and finds one. It is certain only if all of its
    /// threads are stuck at present, which is checked without the lock of the names.
    fn possible_deadlock(&mut self) -> Option<PossibleDeadlock> {
        self.deadlocks.check()
    }

    /// Notes a deadlock in the process table, if it is certain.
    fn note_deadlock(&mut self, possible: PossibleDeadlock, is_certain: bool) {
        let Some(found) = self.deadlocks.decide(possible, is_certain) else {
            return;
        };
        let wait = |(key, label): StuckThread| {
            let name = self.process(key.process).name;
            DeadlockedWait::new((ProcessId::new(key.process), key.thread), name, label)
        };
        let waits = found.into_iter().map(wait).collect();
        self.processes.note_deadlock(waits);
    }

    /// Notes that a program has ended.
    #[cfg_attr(not(observing), allow(dead_code))]
    pub(in crate::supervisor) fn forget(&mut self, pid: ProcessId) {
        self.deadlocks.forget(pid.get());
        self.resolver.forget(pid.get());
    }

    fn name(&self, pid: ProcessId, target: WaitTarget) -> Option<String> {
        let whom = match target.holders {
            Holders::Processes(all) if all == [pid.get()] => Awaited::Itself,
            Holders::Processes(all) if all.len() > MAX_LISTED => {
                Awaited::OneOf(u32::try_from(all.len()).unwrap_or(u32::MAX))
            }
            Holders::Processes(all) => {
                Awaited::Processes(all.into_iter().map(|pid| self.process(pid)).collect())
            }
            Holders::Thread(number) => Awaited::Thread(Numbered {
                name: comm(&format!("/proc/{pid}/task/{number}/comm")).unwrap_or_default(),
                number,
            }),
            Holders::Address(address) => Awaited::Address(address),
            Holders::NotRecorded => Awaited::NotRecorded,
            Holders::NoProcess | Holders::Unknown => return None,
        };
        let kind = target.kind.name().to_owned();
        Some(WaitLabel { whom, kind }.to_string())
    }

    /// The name of a process, and its number: several processes may have one name.
    fn process(&self, number: u32) -> Numbered {
        let name = self.processes.name_of_running(ProcessId::new(number));
        let name = name.or_else(|| comm(&format!("/proc/{number}/comm")));
        let name = name.unwrap_or_else(|| "process".to_owned());
        Numbered { name, number }
    }
}

/// A name that fits into a message.
fn clipped(mut name: String) -> String {
    limits::clip(&mut name, limits::MAX_WAIT_NAME_BYTES);
    name
}

/// Checks for a deadlock, and adds it to the process table if all its threads are still stuck. This
/// last check takes long, so it runs without the lock.
pub(in crate::supervisor) fn check_deadlocks(names: &SharedWaitNames) {
    let possible = super::lock(names).possible_deadlock();
    if let Some(possible) = possible {
        let is_certain = are_stuck(possible.threads());
        super::lock(names).note_deadlock(possible, is_certain);
    }
}

fn comm(path: &str) -> Option<String> {
    let name = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
