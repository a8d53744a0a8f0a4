//! The supervisor: one thread that owns the global controller and sends to all children.
//!
//! Everything that happens in a session arrives here as a [`SupervisorEvent`]: messages of
//! children, deaths, updates of this process's own chunk manager, requests of the session and of
//! captures. Invariants: only the supervisor sends to children; at most one request of each kind is
//! outstanding per child; it never waits for anything except events.
//!
//! ```text
//! receive thread ──┐                                 ┌─▶ children (requests coalesced per child)
//! exit watcher ────┼─▶ bounded channel ─▶ supervisor ─┼─▶ own process (direct calls)
//! own manager ─────┤                                 ├─▶ dead_pools (dead pools)
//! session, capture ┘                                 └─▶ the running capture
//! ```

mod control_loop;
mod dead_processes;
mod events;
mod join;
mod link;
mod listen;
mod local_process;
#[cfg(observing)]
mod observed;
#[cfg(observing)]
mod observed_programs;
mod outer;
mod profiled_child;
mod spawn;
mod starter;
#[cfg(all(feature = "observed", not(observing)))]
mod unobserved;
#[cfg(naming_waits)]
mod waits;

#[cfg(observing)]
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ipc_protocol::environment::SessionAddress;
use profiler_core::ids::PoolId;
use profiler_core::internal::pool::PoolSpec;
use profiler_core::session::{Features, SessionParams};
use profiler_sys::{QuietThread, spawn_quiet};

use crate::controller::MemoryLimit;
use crate::groups::{ProbeRegistry, SnapshotReader};
use crate::pools::PoolDirectory;
use crate::process_table::ProcessTable;
#[cfg(observing)]
use crate::process_table::UnprofiledProcess;
use crate::session_time::SessionTime;
use crate::spawn::watch::ExitWatcher;
use control_loop::ControlLoop;
pub(crate) use events::{CaptureRequest, SupervisorEvent};
pub use join::SessionAddressError;
use join::{JoinService, Limits};
pub(crate) use link::Control;
use listen::ChildReceivers;
pub(crate) use local_process::LocalProcessError;
#[cfg(observing)]
use observed::ObservedService;
use outer::Recorded;
pub(crate) use outer::{OuterSession, release_handed_memory};
pub use profiled_child::{ChildSignals, ProfiledChild};
use profiler_symbols::SymbolStore;
pub use spawn::SpawnError;
pub(crate) use spawn::Trust;
pub use starter::HostCommand;
use starter::Starter;

/// Capacity of the event queue. Each child contributes only a few events, see [`listen`]. Senders
/// wait when the queue is full.
const QUEUE: usize = 4096;

/// Why a process that has asked to join is not profiled if it leaves before it begins to record.
const NOT_WAITED: &str = "it stopped waiting before the session answered";

/// State shared by the supervisor and the code that starts children.
#[derive(Debug)]
pub(crate) struct SupervisorContext {
    /// The recording parameters of children.
    pub(crate) params: SessionParams,
    pub(crate) time: SessionTime,
    /// The limit in force; `params` holds the initial limit.
    pub(crate) limit: Arc<MemoryLimit>,
    pub(crate) processes: Arc<ProcessTable>,
    /// The directory for pools that outlive all processes. `None`: pools are in memory.
    pub(crate) pools: Option<Arc<PoolDirectory>>,
    /// Keeps readers of pools, which it must forget when a pool is closed.
    pub(crate) groups: Arc<SnapshotReader>,
    /// The probes that children measure.
    pub(crate) probes: Arc<ProbeRegistry>,
    /// The session around this one, if there is one.
    pub(crate) outer: Option<OuterSession>,
    /// Gets the files of modules that may be removed before a capture.
    #[cfg_attr(not(feature = "observed"), expect(dead_code))]
    pub(crate) symbols: SymbolStore,
    /// Whether observed programs record their crashes.
    #[cfg_attr(not(feature = "observed"), expect(dead_code))]
    pub(crate) observes_crashes: bool,
}

impl SupervisorContext {
    /// Creates the pool of a child.
    fn make_pool(&self, spec: &PoolSpec) -> io::Result<File> {
        self.pools
            .as_ref()
            .map_or_else(|| spec.create_pool(), |pools| pools.make_pool(spec))
    }

    /// Tells the session around this one that it cannot record this process.
    fn tell_outer(&self, process: Recorded<'_>) {
        if let Some(outer) = &self.outer {
            outer.tell(process);
        }
    }

    /// Forgets the pool of this child.
    fn forget_pool(&self, key: PoolId) {
        if let Some(pools) = &self.pools {
            pools.forget(key);
        }
    }

    /// Takes the memory of a process back that has joined and has not begun to record. The process
    /// is listed with the reason, or it is forgotten if it cannot be listed. The caller tells the
    /// controller.
    fn take_back(&self, watcher: &ExitWatcher<PoolId>, key: PoolId, why: String) {
        if self.processes.unprofile(key, why, Limits::now().refused) {
            watcher.forget_other(&key);
        }
        self.forget_pool(key);
        self.groups.forget_reader(key);
    }
}

/// Sends events to the supervisor, and holds the threads that serve it.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorHandle {
    events: Sender<SupervisorEvent>,
    watcher: Arc<ExitWatcher<PoolId>>,
    receivers: Arc<ChildReceivers>,
    processes: Arc<ProcessTable>,
    #[cfg(naming_waits)]
    wait_names: waits::SharedWaitNames,
}

/// Makes the supervisor check which probes are wanted, and whether this process has an update.
/// Holds no resources of the session, and never waits.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Sender<SupervisorEvent>);

impl Waker {
    pub(crate) const fn new(events: Sender<SupervisorEvent>) -> Self {
        Self(events)
    }

    /// Wakes the supervisor. If its queue is full, it checks after any of the queued events.
    pub(crate) fn wake(&self) {
        let _ = self.0.try_send(SupervisorEvent::Woken);
    }
}

/// The running supervisor.
#[derive(Debug)]
pub(crate) struct Supervisor {
    context: Arc<SupervisorContext>,
    pub(crate) handle: SupervisorHandle,
    thread: Option<QuietThread<()>>,
    /// Lets processes join by themselves, once the session's address is needed.
    joining: Mutex<Option<JoinService>>,
    /// Observes programs, once that is asked for.
    #[cfg(observing)]
    observed: Mutex<Option<ObservedService>>,
}

impl Supervisor {
    /// Starts the supervisor, the exit watcher and the receive thread.
    ///
    /// # Errors
    /// When the system refuses a thread or descriptor.
    pub(crate) fn start(context: SupervisorContext) -> io::Result<Self> {
        let context = Arc::new(context);
        let (events, queue) = bounded(QUEUE);
        let exits = events.clone();
        let watcher = Arc::new(ExitWatcher::start(move |key, status| {
            let _ = exits.send(SupervisorEvent::Exited { key, status });
        })?);
        let receivers = Arc::new(ChildReceivers::start(events.clone())?);
        let processes = Arc::clone(&context.processes);
        let handle = SupervisorHandle {
            events,
            watcher,
            receivers,
            #[cfg(naming_waits)]
            wait_names: waits::shared_names(Arc::clone(&processes)),
            processes,
        };
        let control_loop = ControlLoop::new(Arc::clone(&context), &handle);
        let processes = Arc::clone(&context.processes);
        let thread = spawn_quiet("profiler-supervisor", move || {
            run_to_the_end(control_loop, &processes, &queue)
        })?;
        Ok(Self {
            context,
            handle,
            thread: Some(thread),
            joining: Mutex::new(None),
            #[cfg(observing)]
            observed: Mutex::new(None),
        })
    }

    /// The address at which processes can join the session. The first call makes it.
    ///
    /// # Errors
    /// [`SessionAddressError`]; a later call may succeed.
    pub(crate) fn address(&self) -> Result<SessionAddress, SessionAddressError> {
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = &*joining {
            return Ok(service.address().clone());
        }
        let service = JoinService::start(Arc::clone(&self.context), self.handle.clone())?;
        let address = service.address().clone();
        *joining = Some(service);
        Ok(address)
    }

    /// The environment variable that makes a program observed. The first call starts the reader.
    ///
    /// # Errors
    /// If the system refuses a directory or a thread.
    #[cfg(observing)]
    pub(crate) fn observed_variable(&self) -> io::Result<(&'static str, OsString)> {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.is_none() {
            let context = Arc::clone(&self.context);
            *observed = Some(ObservedService::start(context, self.handle.clone())?);
        }
        let service = observed.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let (name, value) = service.variable();
        Ok((name, value.to_owned()))
    }

    /// Observes a process without a file from outside, or lists it as not profiled. Returns the
    /// process if no programs are observed.
    #[cfg(observing)]
    pub(crate) fn observe_outside(&self, process: UnprofiledProcess) -> Option<UnprofiledProcess> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match observed.as_ref() {
            Some(service) => {
                service.observe_outside(process);
                None
            }
            None => Some(process),
        }
    }

    /// Lets no further process join, and removes the address.
    pub(crate) fn stop_joining(&self) {
        let joining = self
            .joining
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(joining);
    }

    /// Makes this process the first of the session. Its display name is `name`, and it records
    /// `features`.
    ///
    /// # Errors
    /// [`LocalProcessError`].
    pub(crate) fn join_local_process(
        &self,
        name: &str,
        features: Features,
    ) -> Result<(), LocalProcessError> {
        local_process::join(&self.context, &self.handle, name, features)
    }

    /// Lists this process as the first of the session, although it records for another session.
    ///
    /// # Errors
    /// [`LocalProcessError`].
    pub(crate) fn list_local_process(
        &self,
        name: &str,
        why: String,
    ) -> Result<(), LocalProcessError> {
        local_process::list(&self.context, name, why)
    }

    /// Starts a child, profiled if the limit allows.
    ///
    /// # Errors
    /// [`SpawnError`]; no process runs then.
    pub(crate) fn spawn(
        &self,
        name: &str,
        command: Command,
        trust: Trust,
    ) -> Result<ProfiledChild, SpawnError> {
        // An untrusted child is not told how other processes join. Without an address, a child is
        // profiled all the same.
        let address = match trust {
            Trust::Trusted => self.address().ok(),
            Trust::Untrusted => None,
        };
        let address = address.as_ref();
        let starter = Starter::Session(command);
        spawn::spawn_child(&self.context, &self.handle, name, starter, trust, address)
    }

    /// Starts a trusted child with a command of another library.
    ///
    /// # Errors
    /// [`SpawnError`]; no process runs then.
    pub(crate) fn spawn_by(
        &self,
        name: &str,
        command: &mut dyn HostCommand,
    ) -> Result<ProfiledChild, SpawnError> {
        if !crate::sys::watches_others() {
            return Err(io::Error::from(io::ErrorKind::Unsupported).into());
        }
        let address = self.address().ok();
        let (context, handle) = (&self.context, &self.handle);
        let starter = Starter::Host(command);
        spawn::spawn_child(
            context,
            handle,
            name,
            starter,
            Trust::Trusted,
            address.as_ref(),
        )
    }

    /// Starts a child that is observed.
    ///
    /// # Errors
    /// [`SpawnError`]; no process runs then.
    #[cfg(observing)]
    pub(crate) fn spawn_observed(
        &self,
        name: &str,
        mut command: Command,
    ) -> Result<ProfiledChild, SpawnError> {
        let (variable, value) = self.observed_variable()?;
        command.env(variable, value);
        let address = self.address().ok();
        let address = address.as_ref();
        spawn::spawn_observed(&self.context, &self.handle, name, command, address)
    }
}

/// Runs the supervisor. If it panics, processes continue to record and can be recovered, but
/// nothing controls them; a thread that waits for a child still learns of its end.
fn run_to_the_end(
    control_loop: ControlLoop,
    processes: &ProcessTable,
    queue: &Receiver<SupervisorEvent>,
) {
    if catch_unwind(AssertUnwindSafe(|| control_loop.run(queue))).is_err() {
        let until_the_end = queue
            .iter()
            .take_while(|event| !matches!(event, SupervisorEvent::End));
        until_the_end.for_each(|event| answer_without_supervisor(processes, event));
    }
}

/// Answers events after a panic of the supervisor. The sender of a control command learns that no
/// child confirms. All other events are dropped together with their answer channels, so no caller
/// waits.
fn answer_without_supervisor(processes: &ProcessTable, event: SupervisorEvent) {
    match event {
        SupervisorEvent::Exited { key, status } => {
            processes.note_exit_alone(key, status);
        }
        SupervisorEvent::Control { asked, .. } => {
            let _ = asked.send(processes.connected());
        }
        _ => {}
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop_joining();
        #[cfg(observing)]
        drop(self.observed.get_mut().map(Option::take)); // it sends to the supervisor
        // First, so that no exit is sent to a supervisor that has ended: a thread that waits for a
        // child now waits for the child itself.
        self.handle.watcher.stop();
        self.handle.send(SupervisorEvent::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.handle.receivers.stop();
        self.context
            .processes
            .release(|| self.handle.watcher.take_children());
    }
}

impl SupervisorHandle {
    /// Sends an event. Has no effect after the end of the session.
    pub(crate) fn send(&self, event: SupervisorEvent) {
        let _ = self.events.send(event);
    }

    /// Wakes the supervisor; holds no resources of the session.
    pub(crate) fn waker(&self) -> Waker {
        Waker::new(self.events.clone())
    }

    /// A sender of events that holds nothing else of the session.
    fn events(&self) -> Sender<SupervisorEvent> {
        self.events.clone()
    }

    fn receivers(&self) -> &ChildReceivers {
        &self.receivers
    }

    pub(crate) fn watcher(&self) -> &ExitWatcher<PoolId> {
        &self.watcher
    }

    /// Sends a command to every connected child, and waits for all of them, for at most `patience`.
    /// Returns how many have not confirmed.
    pub(crate) fn control(&self, control: Control, patience: Duration) -> usize {
        let (confirm, confirmations) = bounded(QUEUE);
        let (reply, asked) = bounded(1);
        self.send(SupervisorEvent::Control {
            control,
            confirm,
            asked: reply,
        });
        let asked = match asked.recv_timeout(patience) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => return self.processes.connected(),
            Err(RecvTimeoutError::Disconnected) => return 0, // the session is over
        };
        let deadline = crossbeam_channel::after(patience);
        for left in (1..=asked).rev() {
            let confirmed = crossbeam_channel::select! {
                recv(confirmations) -> answer => answer.is_ok(),
                recv(deadline) -> _ => false,
            };
            if !confirmed {
                return left;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::ProcessId;
    use profiler_core::session::EntryCounts;

    use super::*;
    use crate::process_table::{ProcessState, Remains, TrackedProcess};

    #[test]
    fn exits_are_handled_and_callers_do_not_wait_after_a_panic_of_the_supervisor() {
        let processes = ProcessTable::default();
        let key = PoolId::new(7);
        let remains = Remains::Expired(EntryCounts::default());
        processes.add(
            key,
            TrackedProcess::new("child", ProcessId::new(1), ProcessState::Connected, remains),
        );
        let (confirm, confirmed) = bounded(1);
        let (asked, number) = bounded(1);
        answer_without_supervisor(
            &processes,
            SupervisorEvent::Control {
                control: Control::Pause,
                confirm,
                asked,
            },
        );
        assert_eq!(number.recv(), Ok(1), "one child is connected");
        assert!(confirmed.recv().is_err(), "no child confirms");
        answer_without_supervisor(&processes, SupervisorEvent::Exited { key, status: None });
        assert_eq!(processes.wait_for_end(key), None);
        assert_eq!(processes.reports()[0].state, ProcessState::Exited(None));
        let (reply, answer) = bounded(1);
        answer_without_supervisor(&processes, SupervisorEvent::Join { key, reply });
        assert!(answer.recv().is_err(), "the reply channel is dropped");
    }
}
