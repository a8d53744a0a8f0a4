//! For whom the threads of observed programs wait, in words: the names of labels.
//!
//! Used by the reader's thread in each look. `profiler-waits` finds the processes; here they get the
//! names that they have in the session. Invariant: a wait that no other process or thread can end has
//! no name: the function in which it waits says what it is.

use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::observed::WaitingThread;
use profiler_waits::{Holders, WaitResolver, WaitTarget, WaitingCall};

use crate::process_table::ProcessTable;

/// The maximum number of processes that one name lists.
const MAX_LISTED: usize = 3;

/// Finds for whom threads wait.
#[derive(Debug)]
pub(super) struct WaitNames {
    resolver: WaitResolver,
    processes: Arc<ProcessTable>,
}

impl WaitNames {
    pub(super) fn new(processes: Arc<ProcessTable>) -> Self {
        Self {
            resolver: WaitResolver::new(),
            processes,
        }
    }

    /// For whom a thread of a process waits.
    pub(super) fn for_whom(
        &mut self,
        pid: ProcessId,
        waiting: &WaitingThread<'_>,
    ) -> Option<String> {
        let call = WaitingCall {
            number: waiting.call,
            arguments: waiting.arguments,
        };
        let thread = u32::try_from(waiting.thread.get()).ok()?;
        let processes = &self.processes;
        let all = || processes.running();
        let mut memory = |address: u64, room: &mut [u8]| waiting.read(address, room);
        let target = self
            .resolver
            .resolve((pid.get(), thread), &call, &all, &mut memory)?;
        self.name(pid, &target)
    }

    fn name(&self, pid: ProcessId, target: &WaitTarget) -> Option<String> {
        let whom = match &target.holders {
            Holders::Processes(all) if *all == [pid.get()] => "itself".to_owned(),
            Holders::Processes(all) if all.len() > MAX_LISTED => {
                format!("one of {} processes", all.len())
            }
            Holders::Processes(all) => {
                let names: Vec<String> = all.iter().map(|pid| self.name_of(*pid)).collect();
                names.join(" or ")
            }
            Holders::Thread(thread) => {
                let name = comm(&format!("/proc/{pid}/task/{thread}/comm"));
                format!("thread {} [{thread}]", name.unwrap_or_default())
            }
            Holders::AnyChild => "any child".to_owned(),
            Holders::Address(address) => address.clone(),
            Holders::NotRecorded => "another process, which is not recorded".to_owned(),
            Holders::Nobody | Holders::Unknown => return None,
        };
        Some(format!("waiting for {whom} ({})", target.kind.name()))
    }

    /// The name of a process, and its number: several processes may have one name.
    fn name_of(&self, pid: u32) -> String {
        let name = self.processes.name_of_running(ProcessId::new(pid));
        let name = name.or_else(|| comm(&format!("/proc/{pid}/comm")));
        format!("{} [{pid}]", name.as_deref().unwrap_or("process"))
    }
}

fn comm(path: &str) -> Option<String> {
    let name = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}
