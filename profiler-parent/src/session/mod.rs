//! A session: the parent's one handle to everything.
//!
//! [`SessionBuilder::start`] starts recording in this process and the hub ([`crate::supervisor`]);
//! [`Session::spawn`] starts children that record for it; [`Session::capture`] gathers one profile
//! of all of them.

mod builder;
mod limit;

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use profiler_core::ids::ByteLimit;

pub use builder::{SessionBuilder, SessionError};
pub(crate) use limit::Limit;
pub use limit::LimitError;

use profiler_core::groups::Probes;

use crate::alerts::{AlertRules, Alerts, EvidenceOptions, Watches};
use crate::capture::Capture;
use crate::groups::{GroupsSnapshot, Monitor};
#[cfg(feature = "live")]
use crate::live::{LiveOptions, LiveServer};
use crate::observe::{Filter, Observatory, Observer, ObserverOptions};
use crate::pools::PoolDirectory;
use crate::supervisor::{
    self, Control, ProcessReport, ProfiledChild, RunningHub, Shared, SpawnedError, Trust,
};

/// How long a session waits for its children to confirm a command.
const CONFIRM: Duration = Duration::from_secs(1);
/// How long the end of a session waits for its children to stop recording.
const FAREWELL: Duration = Duration::from_millis(200);

/// How long a snapshot of groups may take before it begins no further pool.
const GROUPS_TIMEOUT: Duration = Duration::from_secs(5);

/// A running session. Dropping it stops recording everywhere; all data is gone then.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    hub: RunningHub,
    observatory: Observatory,
    watches: Watches,
}

impl Session {
    /// Decides how a session is to be.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Starts a child that records for this session. `name` is how the profile shows it.
    ///
    /// The session takes the child's exit status; ask [`ProfiledChild::wait`] for it. If the memory
    /// limit cannot hold one more process, the child runs without profiling, and the profile says so.
    ///
    /// # Errors
    /// When the program cannot be started; nothing runs then.
    pub fn spawn(&self, name: &str, command: Command) -> Result<ProfiledChild, SpawnedError> {
        supervisor::spawn_child(&self.shared, &self.hub.handle, name, command, Trust::Trusted)
    }

    /// Starts a child that records for this session and is not trusted: one that runs foreign code, or
    /// parses foreign data in a sandbox. It speaks through a socket of its own that it inherits, and nothing
    /// it sends can make this process wait, grow or end; at worst its own control channel is closed,
    /// and its data is read from its memory. The child's code is the same: `profiler_child::init()`.
    ///
    /// Only the very process that is started may speak: a wrapper must `exec` the program that records, not
    /// fork it. `docs/security.md` says what else holds, and which system calls its sandbox must allow.
    ///
    /// # Errors
    /// As [`Session::spawn`]; [`SpawnedError::Channel`] on other systems than Linux.
    pub fn spawn_untrusted(&self, name: &str, command: Command) -> Result<ProfiledChild, SpawnedError> {
        supervisor::spawn_child(&self.shared, &self.hub.handle, name, command, Trust::Untrusted)
    }

    /// All processes of the session, the parent first, with live figures of their memory.
    pub fn processes(&self) -> Vec<ProcessReport> {
        self.shared.processes.reports()
    }

    /// Entries that all processes together have recorded until now, whether they are still kept or not. Reads
    /// the books of every pool: meant for a line that tells a user how things go, not for a loop.
    pub fn recorded(&self) -> u64 {
        self.shared.processes.recorded()
    }

    /// A capture, to be saved. Recording goes on meanwhile; several captures queue.
    pub fn capture(&self) -> Capture {
        Capture::new(Arc::clone(&self.shared), self.hub.handle.clone())
    }

    /// What all processes record from now on, as it happens, in batches every 200 ms: processes that come later
    /// too, and the last of those that end. They notice nothing of it; one thread of this process reads their memory.
    /// Returns when that thread has looked through what is there already, for spans that are open: everything that is
    /// recorded afterwards is told.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn observe(&self, filter: Filter) -> io::Result<Observer> {
        self.observe_with(filter, ObserverOptions::default())
    }

    /// The same, with batches and a queue of other sizes.
    ///
    /// # Errors
    /// As [`Session::observe`].
    pub fn observe_with(&self, filter: Filter, options: ObserverOptions) -> io::Result<Observer> {
        self.observatory.observe(filter, options)
    }

    /// Alerts when groups of any process are too slow, by these rules, with evidence if that is wanted. What is needed for
    /// it is measured meanwhile. Looks at all groups five times a second, on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread, or the directory for the evidence cannot be made.
    pub fn alerts(&self, rules: AlertRules, evidence: EvidenceOptions) -> io::Result<Alerts> {
        let monitor = self.monitor(Probes::JANK.with(Probes::BLOCKING));
        Alerts::start((&self.shared, &self.hub.handle, &self.watches), monitor, rules, evidence)
    }

    /// Serves a page with everything that can be seen of this session now, on this address of this machine (port 0:
    /// any that is free), until the server is dropped or the session ends. Groups are measured meanwhile.
    ///
    /// # Errors
    /// [`LiveError`](crate::live::LiveError); nothing is served then.
    #[cfg(feature = "live")]
    pub fn serve_live(&self, address: std::net::SocketAddr) -> Result<LiveServer, crate::live::LiveError> {
        self.serve_live_with(address, LiveOptions::default())
    }

    /// The same, with other rules for alerts.
    ///
    /// # Errors
    /// As [`Session::serve_live`].
    #[cfg(feature = "live")]
    pub fn serve_live_with(
        &self,
        address: std::net::SocketAddr,
        options: LiveOptions,
    ) -> Result<LiveServer, crate::live::LiveError> {
        let sources = crate::live::Sources {
            shared: Arc::clone(&self.shared),
            hub: self.hub.handle.clone(),
            observatory: self.observatory.clone(),
            over: self.watches.join(),
        };
        let alerts = options.start_alerts(self)?;
        LiveServer::start(address, sources, alerts, self.monitor(crate::live::PROBES))
    }

    /// Records nothing anywhere until [`Session::resume`]. Returns when every child has confirmed, or
    /// after a second, with how many have not.
    pub fn pause(&self) -> usize {
        profiler_core::session::pause();
        self.hub.handle.control(Control::Pause, CONFIRM)
    }

    /// Ends [`Session::pause`].
    pub fn resume(&self) -> usize {
        profiler_core::session::resume();
        self.hub.handle.control(Control::Resume, CONFIRM)
    }

    /// Takes no periodic samples anywhere until [`Session::resume_sampling`]; markers go on.
    pub fn pause_sampling(&self) -> usize {
        profiler_core::session::pause_sampling();
        self.hub.handle.control(Control::PauseSampling, CONFIRM)
    }

    /// Ends [`Session::pause_sampling`].
    pub fn resume_sampling(&self) -> usize {
        profiler_core::session::resume_sampling();
        self.hub.handle.control(Control::ResumeSampling, CONFIRM)
    }

    /// Waits until every selected thread of every child has been sampled once more.
    pub fn wait_one_periodic_sampling(&self) -> usize {
        profiler_core::session::wait_one_periodic_sampling();
        self.hub.handle.control(Control::WaitOnePeriodicSampling, CONFIRM)
    }

    /// The groups of all processes as they are now: who is slow. Read from the pools without asking anybody, see
    /// [`crate::groups`]. Costs some ten microseconds per process and a microsecond per group.
    pub fn groups(&self) -> GroupsSnapshot {
        self.groups_within(GROUPS_TIMEOUT)
    }

    /// The same with another time-out than 5 s, after which no further pool is read. It matters only where pools are files.
    pub fn groups_within(&self, timeout: Duration) -> GroupsSnapshot {
        crate::groups::snapshot(&self.shared, timeout)
    }

    /// Has this measured of groups in all processes, also in those that are started later, until the monitor is dropped.
    /// Several may want the same. Does not wait: a child measures as soon as it has heard, and
    /// [`GroupsSnapshot`] says of each what it measures. Children that are not trusted are not asked for
    /// [`Probes::CPU`]: it needs a system call for which their sandbox might kill them.
    pub fn monitor(&self, probes: Probes) -> Monitor {
        Monitor::new(Arc::clone(&self.shared.groups), self.hub.handle.bell(), probes)
    }

    /// The limit on the bytes that all processes together may hold.
    pub fn memory_limit(&self) -> ByteLimit {
        self.shared.limit.now()
    }

    /// Changes the limit, without a gap in what is recorded. More is there at once for whoever
    /// needs it. For less, the oldest data of all processes goes first; this returns when all have
    /// shown that they obey, or after a second, with how many bytes are still held beyond the limit.
    ///
    /// That is not zero where a process stands still (stopped, or in a debugger) with more than the others
    /// can give in its place, and where the limit is below what all processes need at least, each of
    /// which keeps its header, two small chunks, and the chunks (up to 1 MiB each) into which threads
    /// are recording until they are full or rest for a second; [`ProcessReport::owed_bytes`] says who was
    /// asked to give. While more than the limit is held nobody gets more, and no process joins; the sum
    /// shrinks whenever somebody can give. What is over-held goes when its process goes on or ends.
    ///
    /// # Errors
    /// [`LimitError`]: less than this process needs, or more than [`SessionBuilder::max_memory_limit`].
    pub fn set_memory_limit(&self, bytes: u64) -> Result<u64, LimitError> {
        limit::set(&self.shared.limit, &self.hub.handle, bytes)
    }

    /// Where the pools of this session are, if they are files: what `profiler recover` and
    /// `profiler info` are to be given.
    pub fn pool_directory(&self) -> Option<&Path> {
        self.shared.pools.as_ref().map(PoolDirectory::path)
    }

    /// Stops recording everywhere. Children go on running; all data is gone.
    pub fn stop(self) {
        drop(self);
    }

    fn start(shared: Shared, name: &str) -> Result<Self, SessionError> {
        let shared = Arc::new(shared);
        let hub = RunningHub::start(Arc::clone(&shared))?;
        supervisor::join_own(&shared, &hub.handle, name)?;
        let observatory = Observatory::new(Arc::clone(&shared));
        Ok(Self { shared, hub, observatory, watches: Watches::default() })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.watches.close();
        self.observatory.close();
        self.shared.groups.close();
        self.hub.handle.control(Control::Stop, FAREWELL);
        profiler_core::session::stop();
        self.shared.processes.hang_up();
        if let Some(pools) = &self.shared.pools {
            pools.remove(); // handles of children keep what is shared
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
