//! Alerts: who was too slow, as it happens, with the evidence.
//!
//! [`Session::alerts`](crate::Session::alerts) starts one thread that looks at the groups of all processes
//! ([`crate::groups`]) some times a second; no process is asked. What is worth an alert is decided by a pure state
//! machine, and told to `listeners` by a second thread, which may be held up.
//!
//! ```text
//! pools ──peaks of all groups──▶ machine: threshold, collection, sanity ──queue──▶ evidence: a profile of that time ──▶ listeners
//!                                watch: looks in time                              tell: takes the time that it takes
//! ```

mod dispatcher;
mod evidence;
mod listeners;
mod machine;
mod poller;
mod rules;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_core::ids::ProcessId;
use profiler_core::sys::spawn_quiet;
use serde::Serialize;

pub use evidence::EvidenceOptions;
pub use listeners::{ListenerError, Target};
pub use machine::Withheld;
pub use rules::AlertRules;

use crate::groups::{GroupId, Monitor};
use crate::observe::SessionNs;
use crate::supervisor::{HubHandle, Shared};
use listeners::Listeners;
use poller::{Counts, Ends};

/// A group was too slow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Alert {
    /// Name of the group.
    pub group: String,
    /// Name of its kind.
    pub kind: String,
    /// Identity of the group in its process.
    pub id: GroupId,
    /// System number of the process.
    pub process: ProcessId,
    /// Shown name of the process.
    pub process_name: String,
    /// What its longest run since the alert before took, in nanoseconds.
    pub highest_ns: u64,
    /// Runs that were too long, as far as they were seen: at least one, and at most one in half a second.
    pub runs: u64,
    /// What it has waited since the alert before, in nanoseconds; 0 unless that is measured.
    pub blocking_ns: u64,
    /// When the first of those runs began.
    pub from: SessionNs,
    /// When the last of them ended.
    pub to: SessionNs,
    /// A profile of that time, if evidence is kept and this was one of the worst.
    pub evidence: Option<PathBuf>,
    /// Why there is none although there should be.
    pub evidence_error: Option<String>,
}

#[cfg(test)]
impl Alert {
    fn test(kind: &str, group: &str) -> Self {
        let (pool, number) = (profiler_core::ids::PoolId::new(1), profiler_core::ids::GroupIndex::new(0));
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            id: GroupId { pool, epoch: 1, number },
            process: ProcessId::new(1),
            process_name: "p".to_owned(),
            highest_ns: 1,
            runs: 1,
            blocking_ns: 0,
            from: SessionNs(0),
            to: SessionNs(1),
            evidence: None,
            evidence_error: None,
        }
    }
}

/// Who watches hears from it that the session ends, and ends soon. The session does not wait for that. All hear the same
/// channel, so nothing is kept of those who watch no more.
#[derive(Debug)]
pub(crate) struct Watches {
    end: Mutex<Option<Sender<()>>>,
    ended: Receiver<()>,
}

impl Default for Watches {
    fn default() -> Self {
        let (end, ended) = bounded(0);
        Self { end: Mutex::new(Some(end)), ended }
    }
}

impl Watches {
    /// Something that is heard when the session ends: it is hung up. Nothing is ever sent.
    pub(crate) fn join(&self) -> Receiver<()> {
        self.ended.clone()
    }

    /// The session ends.
    pub(crate) fn close(&self) {
        drop(self.end.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Alerts while this is there. Dropping it ends them, and waits for a callback that runs, or for the evidence that is being
/// written, which takes as long as a capture.
#[derive(Debug)]
#[must_use = "alerts end when this is dropped"]
pub struct Alerts {
    listeners: Arc<Listeners>,
    counts: Counts,
    stop: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    /// What it looks at is measured meanwhile.
    _monitor: Monitor,
}

impl Alerts {
    pub(crate) fn start(
        (shared, hub, watches): (&Arc<Shared>, &HubHandle, &Watches),
        monitor: Monitor,
        rules: AlertRules,
        evidence: EvidenceOptions,
    ) -> io::Result<Self> {
        let (listeners, counts) = (Arc::<Listeners>::default(), Counts::default());
        let (stop, stopped) = bounded(0);
        let ends = Ends([stopped, watches.join()]);
        let (tell, collections) = bounded(dispatcher::QUEUE);
        let teller = dispatcher::Teller {
            shared: Arc::clone(shared),
            hub: hub.clone(),
            listeners: Arc::clone(&listeners),
            counts: counts.clone(),
            ends: ends.clone(),
            evidence: evidence::Evidence::new(evidence)?,
        };
        let watch = poller::Watch {
            shared: Arc::clone(shared),
            listeners: Arc::clone(&listeners),
            counts: counts.clone(),
            ends,
            tell,
        };
        // If there is no second thread, the first one ends for want of anybody who could tell it anything.
        let teller = spawn_quiet("profiler-tell", move || teller.run(&collections))?;
        let watch = spawn_quiet("profiler-alerts", move || watch.run(&rules))?;
        Ok(Self { listeners, counts, stop: Some(stop), threads: vec![watch, teller], _monitor: monitor })
    }

    /// Calls `callback` with the alerts for this target, from a thread of the alerts; of one collection all at once,
    /// the most janky first. While it runs looks go on, and sixteen more collections wait; what comes after that is
    /// [`Withheld::unheard`]. A callback that panics is removed. The target need not be there yet. `name` is for [`Alerts::remove`].
    ///
    /// # Errors
    /// [`ListenerError::Duplicate`] if there is one of that name for that target.
    pub fn add(
        &self,
        target: Target,
        name: &str,
        callback: impl FnMut(&[Alert]) + Send + 'static,
    ) -> Result<(), ListenerError> {
        self.listeners.add(target, name, Box::new(callback))
    }

    /// Calls it no more; waits for a call that runs.
    ///
    /// # Errors
    /// [`ListenerError::Unknown`] if there is none of that name for that target.
    pub fn remove(&self, target: &Target, name: &str) -> Result<(), ListenerError> {
        self.listeners.remove(target, name)
    }

    /// What was withheld so far, by the rules for it and for want of room.
    pub fn withheld(&self) -> Withheld {
        self.counts.now()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.stop = None;
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::TryRecvError;

    use super::*;

    #[test]
    fn all_who_watch_hear_the_end_also_late_ones() {
        let watches = Watches::default();
        (0..1_000).for_each(|_| drop(watches.join())); // nothing is kept of them: see the type
        let early = [watches.join(), watches.join()];
        assert!(early.iter().all(|one| one.try_recv() == Err(TryRecvError::Empty)));
        watches.close();
        let heard = |one: &Receiver<()>| one.try_recv() == Err(TryRecvError::Disconnected);
        assert!(early.iter().all(heard) && heard(&watches.join()));
    }
}
