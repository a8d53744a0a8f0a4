//! The names of the labels that show for whom the threads of observed programs wait.
//!
//! Used by the reader's thread in each look. `profiler-waits` finds the processes; this module
//! gives them the names that they have in the session. Invariant: a wait that no other process or
//! thread can end has no label, because the function in which the thread waits describes it.

use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::observed::{AwaitedName, WaitingThread};
use profiler_json::{Awaited, Numbered, WaitLabel};
use profiler_waits::{Blocker, Holders, ThreadKey, WaitResolver, WaitTarget, WaitingCall};

use super::deadlocks::{DeadlockWatch, StuckThread};
use crate::process_table::{DeadlockedWait, ProcessTable};

/// The maximum number of processes that one name lists.
const MAX_LISTED: usize = 3;

/// Finds for whom threads wait.
#[derive(Debug)]
pub(super) struct WaitNames {
    resolver: WaitResolver,
    processes: Arc<ProcessTable>,
    deadlocks: DeadlockWatch,
}

impl WaitNames {
    pub(super) fn new(processes: Arc<ProcessTable>) -> Self {
        Self {
            resolver: WaitResolver::new(),
            processes,
            deadlocks: DeadlockWatch::new(),
        }
    }

    /// For whom a thread of a process waits.
    pub(super) fn for_whom(&mut self, pid: ProcessId, waiting: &WaitingThread<'_>) -> AwaitedName {
        let call = WaitingCall {
            number: waiting.call,
            arguments: waiting.arguments,
        };
        let Ok(thread) = u32::try_from(waiting.thread.get()) else {
            return AwaitedName::None;
        };
        let processes = &self.processes;
        let all = || processes.running();
        let mut memory = |address: u64, room: &mut [u8]| waiting.read(address, room);
        let here = (pid.get(), thread);
        match self.resolver.resolve(here, &call, &all, &mut memory) {
            Some(target) => {
                let blocker = Blocker::of(pid.get(), &call, &target);
                let name = self.name(pid, target);
                let key = ThreadKey {
                    process: pid.get(),
                    thread,
                };
                self.deadlocks.note(key, blocker.zip(name.clone()));
                name.map_or(AwaitedName::None, AwaitedName::Known)
            }
            None => AwaitedName::NotLookedUp,
        }
    }

    /// The deadlock that has become certain, if there is one.
    pub(super) fn deadlock(&mut self) -> Option<Vec<DeadlockedWait>> {
        let found = self.deadlocks.check()?;
        let wait = |(key, label): StuckThread| {
            let name = self.process(key.process).name;
            DeadlockedWait::new((ProcessId::new(key.process), key.thread), name, label)
        };
        Some(found.into_iter().map(wait).collect())
    }

    /// Notes that a program has ended.
    pub(super) fn forget(&mut self, pid: ProcessId) {
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

fn comm(path: &str) -> Option<String> {
    let name = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
