//! The hub: one thread that owns the global controller and speaks to all children.
//!
//! Everything that happens in a session arrives here as an [`Event`](events::HubEvent): messages
//! of children, deaths, reports of this process's own chunk manager, wishes of the session and of
//! captures. Invariants: only the hub sends to children, at most one request of each kind is
//! outstanding per child, and it never waits for anybody.
//!
//! ```text
//! receive thread ──┐                          ┌─▶ children (requests coalesced per child)
//! exit watcher ────┼─▶ bounded channel ─▶ hub ─┼─▶ own process (direct calls)
//! own manager ─────┤                          ├─▶ graves (dead pools)
//! session, capture ┘                          └─▶ the capture that waits
//! ```

mod control_loop;
mod events;
mod link;
mod listen;
mod local_process;
mod spawn;

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use profiler_core::pool::{self, PoolSpec};
use profiler_core::session::{Features, SessionParams};
use profiler_core::sys::spawn_quiet;
use profiler_core::time::{SessionClock, Timestamp};

pub(crate) use crate::process_table::{Process, Processes, Remains};
pub use crate::process_table::{ProcessReport, ProcessState};
pub(crate) use events::{CaptureOrder, HubEvent};
pub(crate) use link::Control;
pub(crate) use local_process::join_own;
pub use spawn::{ChildSignals, ProfiledChild, SpawnedError};
pub(crate) use spawn::{Trust, spawn_child};

use crate::capture::names::Names;
use crate::gather::state::Patience;
use crate::pools::PoolDirectory;
use crate::session::Limit;
use crate::spawn::watch::ExitWatcher;
use control_loop::Hub;
use listen::ChildReceivers;
use profiler_core::ids::PoolId;

/// Events that may wait for the hub; few of each child's, see [`listen`]. Senders wait when it is full.
const QUEUE: usize = 4096;

/// What all parts of a session share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) params: SessionParams,
    /// What this process records of itself, where that differs.
    pub(crate) own_features: Option<Features>,
    /// The limit in force; that of `params` is the first one.
    pub(crate) limit: Limit,
    pub(crate) clock: SessionClock,
    pub(crate) patience: Patience,
    pub(crate) processes: Processes,
    /// Where pools lie that survive everybody; otherwise they are in memory.
    pub(crate) pools: Option<PoolDirectory>,
    /// Names of code, kept from capture to capture.
    pub(crate) names: Names,
    /// Who looks at groups.
    pub(crate) groups: Arc<crate::groups::Desk>,
    /// One capture at a time; others queue here.
    pub(crate) turn: std::sync::Mutex<()>,
}

impl Shared {
    /// Makes the pool of a child.
    fn make_pool(&self, spec: &PoolSpec) -> io::Result<File> {
        self.pools.as_ref().map_or_else(|| pool::create(spec), |pools| pools.make_pool(spec))
    }

    /// Nobody needs the pool of this child any more.
    fn forget_pool(&self, key: PoolId) {
        if let Some(pools) = &self.pools {
            pools.forget(key);
        }
    }
}

/// The way to the hub.
#[derive(Clone, Debug)]
pub(crate) struct HubHandle {
    events: Sender<HubEvent>,
    watcher: Arc<ExitWatcher<PoolId>>,
    receivers: Arc<ChildReceivers>,
    shared: Arc<Shared>,
}

/// Has the hub look at what others want of it. Keeps nothing of the session, waits for nobody.
#[derive(Clone, Debug)]
pub(crate) struct HubBell(Sender<HubEvent>);

impl HubBell {
    pub(crate) const fn new(events: Sender<HubEvent>) -> Self {
        Self(events)
    }

    /// There is something to look at. A hub whose queue is full looks after each event that waits there.
    pub(crate) fn ring(&self) {
        let _ = self.0.try_send(HubEvent::Rung);
    }
}

/// The running hub.
#[derive(Debug)]
pub(crate) struct RunningHub {
    shared: Arc<Shared>,
    pub(crate) handle: HubHandle,
    thread: Option<JoinHandle<()>>,
}

impl RunningHub {
    /// Starts the hub, the exit watcher and the receive thread.
    ///
    /// # Errors
    /// When the system gives no thread or descriptor.
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let (events, queue) = bounded(QUEUE);
        let exits = events.clone();
        let watcher = ExitWatcher::start(move |key, status| {
            let _ = exits.send(HubEvent::Exited { key, status });
        })?;
        let receivers = Arc::new(ChildReceivers::start(events.clone())?);
        let watcher = Arc::new(watcher);
        let handle = HubHandle { events, watcher, receivers, shared: Arc::clone(&shared) };
        let theirs = Arc::clone(&shared);
        let thread = spawn_quiet("profiler-hub", move || run_to_the_end(&theirs, &queue))?;
        Ok(Self { shared, handle, thread: Some(thread) })
    }
}

/// Runs the hub. If it panics, processes record on and can be recovered, nobody is controlled any more, and whoever
/// waits for a child still hears of its end.
fn run_to_the_end(shared: &Arc<Shared>, queue: &Receiver<HubEvent>) {
    let hub = Hub::new(Arc::clone(shared));
    if catch_unwind(AssertUnwindSafe(|| hub.run(queue))).is_err() {
        let until_the_end = queue.iter().take_while(|event| !matches!(event, HubEvent::End));
        until_the_end.for_each(|event| hear_without_a_hub(&shared.processes, event));
    }
}

/// Who wanted something carried out hears that nobody confirms. All else is dropped, and with it the way to answer:
/// nobody waits for one.
fn hear_without_a_hub(processes: &Processes, event: HubEvent) {
    match event {
        HubEvent::Exited { key, status } => {
            processes.change(key, |process| {
                process.state = ProcessState::Exited(status);
                process.died = Some(Timestamp::now());
            });
        }
        HubEvent::Control { asked, .. } => {
            let all = processes.reports();
            let _ = asked.send(all.iter().filter(|process| process.state == ProcessState::Connected).count());
        }
        _ => {}
    }
}

impl Drop for RunningHub {
    fn drop(&mut self) {
        // First, so that no exit is told to a hub that is gone: whoever waits for a child waits for
        // the child itself from now on.
        self.handle.watcher.stop();
        self.handle.send(HubEvent::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.handle.receivers.stop();
        self.shared.processes.release(&self.handle.watcher);
    }
}

impl HubHandle {
    /// Tells the hub; nothing happens after its end.
    pub(crate) fn send(&self, event: HubEvent) {
        let _ = self.events.send(event);
    }

    /// Tells the hub unless its queue is full; for threads that the hub may be waiting for.
    pub(crate) fn try_send(&self, event: HubEvent) {
        let _ = self.events.try_send(event);
    }

    /// A way to have the hub look that keeps nothing of the session.
    pub(crate) fn bell(&self) -> HubBell {
        HubBell::new(self.events.clone())
    }

    /// Children that could confirm something.
    fn connected(&self) -> usize {
        let reports = self.shared.processes.reports();
        reports.iter().filter(|process| process.state == ProcessState::Connected).count()
    }

    fn receivers(&self) -> &ChildReceivers {
        &self.receivers
    }

    pub(crate) fn watcher(&self) -> &ExitWatcher<PoolId> {
        &self.watcher
    }

    /// Has every connected child carry something out, and waits for all of them, at most so
    /// long. Says how many have not confirmed.
    pub(crate) fn control(&self, control: Control, patience: Duration) -> usize {
        let (confirm, confirmations) = bounded(QUEUE);
        let (reply, asked) = bounded(1);
        self.send(HubEvent::Control { control, confirm, asked: reply });
        let asked = match asked.recv_timeout(patience) {
            Ok(asked) => asked,
            Err(RecvTimeoutError::Timeout) => return self.connected(),
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
    use profiler_core::losses::EntryCounts;

    use super::*;

    #[test]
    fn an_exit_is_heard_although_the_hub_is_gone_and_nobody_else_waits_for_an_answer() {
        let (processes, key) = (Processes::default(), PoolId::new(7));
        let remains = Remains::Expired(EntryCounts::default());
        processes.add(key, Process::new("child", ProcessId::new(1), ProcessState::Connected, remains));
        let (confirm, confirmed) = bounded(1);
        let (asked, number) = bounded(1);
        hear_without_a_hub(&processes, HubEvent::Control { control: Control::Pause, confirm, asked });
        assert_eq!(number.recv(), Ok(1), "one should do it");
        assert!(confirmed.recv().is_err(), "and nobody does");
        hear_without_a_hub(&processes, HubEvent::Exited { key, status: None });
        assert_eq!(processes.wait_for_end(key), None);
        assert_eq!(processes.reports()[0].state, ProcessState::Exited(None));
        let (reply, answer) = bounded(1);
        hear_without_a_hub(&processes, HubEvent::Join { key, reply });
        assert!(answer.recv().is_err(), "dropped, not kept");
    }
}
