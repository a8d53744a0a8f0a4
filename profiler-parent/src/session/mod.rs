//! A session: the application's handle to all parts of the profiler.
//!
//! [`SessionBuilder::start`] starts recording in this process and the supervisor
//! ([`crate::supervisor`]); [`Session::spawn`] starts children that record for it, and
//! [`Session::prepare`] lets processes join that others start;
//! [`Session::capture`] gathers one profile of all of them. Each part of a session gets only what
//! it uses; this file puts them together.

mod builder;
mod children;
mod commands;
mod confirmation;
mod end_signal;
mod engine_sources;
mod error;
mod extensions;
mod limit;
mod own_process;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Receiver;
use profiler_core::groups::Probes;
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::session::{Features, SessionParams};

pub use builder::SessionBuilder;
pub use confirmation::Confirmation;
pub use engine_sources::EngineSources;
pub use error::SessionError;
pub use limit::LimitError;
pub use own_process::NotRecorded;

use crate::alerts::{AlertRules, AlertSources, Alerts, AlertsError, EvidenceOptions};
use crate::capture::{Capture, CaptureSources};
use crate::capture_on::{CaptureOnError, CapturePolicy, CaptureTrigger, TriggeredCaptures};
use crate::controller::MemoryLimit;
use crate::gather::state::Patience;
use crate::groups::{GroupsSnapshot, Monitor, ProbeRegistry, SnapshotReader};
#[cfg(feature = "live")]
use crate::live::{LiveOptions, LiveServer, LiveSources};
use crate::observe::{Filter, ObserveError, Observer, ObserverOptions, ObserverRegistry};
use crate::pools::PoolDirectory;
use crate::process_table::{
    Deadlock, ProcessReport, ProcessTable, SessionSummary, UnprofiledProcess,
};
use crate::session_metrics::{MetricsReader, MetricsSources};
use crate::session_time::{SessionNs, SessionTime};
use crate::supervisor::{Control, OuterSession, Supervisor, SupervisorContext};
use end_signal::EndSignal;
use extensions::SessionExtensions;
use own_process::OwnProcess;
use profiler_symbols::SymbolStore;

/// How long the end of a session waits for its children to stop recording.
const FAREWELL: Duration = Duration::from_millis(200);

/// The time after which a snapshot of groups reads no further pool.
const GROUPS_TIMEOUT: Duration = Duration::from_secs(5);

/// A running session. Dropping it stops recording in all processes and discards all data.
#[derive(Debug)]
pub struct Session {
    processes: Arc<ProcessTable>,
    limit: Arc<MemoryLimit>,
    pools: Option<Arc<PoolDirectory>>,
    groups: Arc<SnapshotReader>,
    metrics: Arc<MetricsReader>,
    probes: Arc<ProbeRegistry>,
    captures: Arc<CaptureSources>,
    extensions: Arc<SessionExtensions>,
    observers: ObserverRegistry,
    end: EndSignal,
    supervisor: Supervisor,
    /// The last field, so that another session can start only when this one has ended.
    own_process: OwnProcess,
}

/// The configuration of a session.
struct SessionConfig {
    own_process: OwnProcess,
    /// The session around this one, if there is one.
    outer: Option<OuterSession>,
    /// The name of this process in the profile.
    name: String,
    params: SessionParams,
    /// The features that this process records.
    own_features: Features,
    /// Whether observed programs record their crashes.
    observes_crashes: bool,
    /// The largest limit that may be set later.
    most: ByteLimit,
    time: SessionTime,
    patience: Patience,
    /// The directory for pools that outlive all processes. `None`: pools are in memory.
    pools: Option<Arc<PoolDirectory>>,
}

impl Session {
    /// Returns a builder for a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// All processes of the session, the parent first, with current memory figures.
    pub fn processes(&self) -> Vec<ProcessReport> {
        self.processes.reports()
    }

    /// The deadlocks among the session's processes that were found so far, the first ones first.
    /// The threads of a deadlock have waited for each other for at least two seconds, and none of
    /// them can go on. A deadlock is reported some seconds after it began.
    pub fn deadlocks(&self) -> Vec<Deadlock> {
        self.processes.deadlocks()
    }

    /// The processes of [`Self::processes`], with those that have begun to record a moment ago:
    /// waits shortly until their files are read.
    pub fn present_processes(&self) -> Vec<ProcessReport> {
        self.processes.await_arrivals();
        self.processes.reports()
    }

    /// Why this session does not record its own process; `None` if it does. Its markers and samples
    /// are then in the profiles of the other session, and pauses and probes of this session do not
    /// reach it.
    pub const fn why_unrecorded(&self) -> Option<NotRecorded> {
        self.own_process.why_not()
    }

    /// The processes of the session and their data, in numbers. Reads every pool: meant for a
    /// progress line, not for a loop.
    pub fn summary(&self) -> SessionSummary {
        self.processes.summary()
    }

    /// Lists a process that cannot record, with the reason, in this session's profiles and reports.
    /// For tools that find such processes; a session does not look for them. Returns `false` if the
    /// process records, or if the session knows another reason.
    ///
    /// Every call keeps some hundred bytes for the life of the session.
    pub fn list_unprofiled(&self, process: UnprofiledProcess) -> bool {
        let start = start_of(process.pid);
        // One of the unread files may be that of the process.
        self.processes.await_reader();
        let key = profiler_core::internal::pool::new_id();
        key.is_ok_and(|key| self.processes.list_unprofiled(key, process, start))
    }

    /// Observes a process from outside. The process has made no file for its samples, and `process`
    /// contains the reason. For tools that find such processes below a program that
    /// [`Session::spawn_observed`] has started. The system takes its samples where it permits that.
    /// Otherwise its processor time and its waits are recorded, without stacks of running threads.
    /// Nothing in the process changes. If it cannot be observed, it is listed as by
    /// [`Session::list_unprofiled`]; if it records itself, or makes a file later, nothing is
    /// recorded twice. Returns before the session has decided this.
    #[cfg(feature = "observed")]
    pub fn observe_from_outside(&self, process: UnprofiledProcess) {
        #[cfg(observing)]
        let process = self.supervisor.observe_outside(process);
        #[cfg(not(observing))]
        let process = Some(process);
        if let Some(process) = process {
            self.list_unprofiled(process);
        }
    }

    /// Whether the session lists this process: it has connected or recorded, was refused, or does
    /// not record for a known reason. An earlier program of the process does not count.
    pub fn lists(&self, pid: ProcessId) -> bool {
        self.processes.lists(pid, start_of(pid))
    }

    /// The number of entries that the processes below this one have recorded so far, including
    /// discarded ones. Reads every pool.
    pub fn recorded_by_children(&self) -> u64 {
        self.processes.recorded_by_children()
    }

    /// The number of entries that all processes have recorded so far, including discarded ones.
    /// Reads every pool: meant for a progress line, not for a loop.
    pub fn recorded(&self) -> u64 {
        self.processes.recorded()
    }

    /// The time since the start of the session, as in [`Capture::range`], alerts and observed
    /// markers.
    pub fn now(&self) -> SessionNs {
        self.captures.time.now()
    }

    /// Prepares a capture, which can be saved. Recording continues during a capture; several
    /// captures queue.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let report = session.capture().save("profile.json.gz")?;
    /// for process in &report.processes {
    ///     println!("{}: {}", process.name, process.verdict); // complete, or why not
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn capture(&self) -> Capture {
        Capture::new(Arc::clone(&self.captures))
    }

    /// Captures a profile whenever `trigger` has a sign, as `policy` allows, until the returned
    /// value is dropped or the session ends. For programs that run for weeks:
    /// [`crate::capture_on`].
    ///
    /// Looks for signs ten times a second, on a thread of the profiler, which also writes the
    /// profiles. No thread of the application waits for it.
    ///
    /// # Errors
    /// [`CaptureOnError`]; nothing is captured then.
    pub fn capture_on(
        &self,
        trigger: CaptureTrigger,
        policy: CapturePolicy,
    ) -> Result<TriggeredCaptures, CaptureOnError> {
        let captures = Arc::clone(&self.captures);
        let start_alerts = |rules| self.alerts(rules, EvidenceOptions::none());
        TriggeredCaptures::start(captures, trigger, policy, &start_alerts)
    }

    /// Observes what all processes record from now on, in batches every 200 ms. Includes processes
    /// that start later, and the last entries of processes that end. The processes are not
    /// involved: one thread of this process reads their memory. Returns when that thread has
    /// searched the existing data for open spans; everything recorded afterwards is reported.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # use {profiler_parent::observe::Filter, std::time::Duration};
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let slow = Filter::default().name("request *").min_duration(Duration::from_millis(50));
    /// let observer = session.observe(slow)?;
    /// while let Ok(batch) = observer.next(Duration::from_secs(1)) {
    ///     println!("{} slow requests, {} run now", batch.markers.len(), batch.running.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ObserveError`]; nothing is observed then.
    pub fn observe(&self, filter: Filter) -> Result<Observer, ObserveError> {
        self.observe_with(filter, ObserverOptions::default())
    }

    /// Like [`Session::observe`], with other batch and queue sizes.
    ///
    /// # Errors
    /// As [`Session::observe`].
    pub fn observe_with(
        &self,
        filter: Filter,
        options: ObserverOptions,
    ) -> Result<Observer, ObserveError> {
        self.observers.observe(filter, options)
    }

    /// Raises alerts when groups of any process exceed the thresholds in `rules`, optionally with
    /// evidence. The necessary measurements are on while the [`Alerts`] exist. Polls all groups
    /// five times a second, on a separate thread.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # use {profiler_parent::{AlertRules, AlertTarget, EvidenceOptions}, std::time::Duration};
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let slow = Some(Duration::from_millis(20));
    /// let rules = AlertRules::default().threshold_of_kind("tenant", slow);
    /// let alerts = session.alerts(rules, EvidenceOptions::in_directory("evidence"))?;
    /// alerts.add(AlertTarget::All, "terminal", |alerts| {
    ///     for alert in alerts {
    ///         println!("{} is slow: {:?}", alert.group, alert.evidence); // a profile of that time
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AlertsError`]; there are no alerts then.
    pub fn alerts(
        &self,
        rules: AlertRules,
        evidence: EvidenceOptions,
    ) -> Result<Alerts, AlertsError> {
        let monitor = self.monitor(Probes::JANK.with(Probes::BLOCKING));
        let sources = AlertSources {
            groups: Arc::clone(&self.groups),
            processes: Arc::clone(&self.processes),
            captures: Arc::clone(&self.captures),
            session_end: self.end.receiver(),
        };
        Alerts::start(sources, monitor, rules, evidence)
    }

    /// Serves a live page of this session at this address of this machine (port 0: any free port),
    /// until the server is dropped or the session ends. Groups are measured meanwhile. The page has
    /// no metrics for Prometheus: see [`Self::serve_live_with`].
    ///
    /// # Errors
    /// [`LiveError`](crate::live::LiveError); nothing is served then.
    #[cfg(feature = "live")]
    pub fn serve_live(
        &self,
        address: std::net::SocketAddr,
    ) -> Result<LiveServer, crate::live::LiveError> {
        self.serve_live_with(address, LiveOptions::default())
    }

    /// Like [`Session::serve_live`], with other rules for alerts, or with metrics at the path
    /// `metrics`: `profiler_prometheus::on_live_page(&session, LiveOptions::default())`.
    ///
    /// # Errors
    /// As [`Session::serve_live`].
    #[cfg(feature = "live")]
    pub fn serve_live_with(
        &self,
        address: std::net::SocketAddr,
        options: LiveOptions,
    ) -> Result<LiveServer, crate::live::LiveError> {
        let sources = LiveSources {
            processes: Arc::clone(&self.processes),
            limit: Arc::clone(&self.limit),
            groups: Arc::clone(&self.groups),
            captures: Arc::clone(&self.captures),
            observers: self.observers.clone(),
            metrics: options.metrics_page(),
            session_end: self.end.receiver(),
        };
        let (alert_log, alerts) =
            options.start_alerts(|rules, evidence| self.alerts(rules, evidence))?;
        let monitor = self.monitor(crate::groups::SHOWN_PROBES);
        LiveServer::start(address, sources, alert_log, alerts, monitor)
    }

    /// What the crates under `engines/` need of a session.
    #[doc(hidden)]
    pub fn engine_sources(&self) -> EngineSources {
        EngineSources {
            captures: Arc::clone(&self.captures),
            extensions: Arc::clone(&self.extensions),
            session_end: self.end.receiver(),
        }
    }

    /// The reader of the numbers for metrics.
    #[doc(hidden)]
    pub fn metrics_reader(&self) -> Arc<MetricsReader> {
        Arc::clone(&self.metrics)
    }

    /// A receiver that is disconnected when the session ends.
    #[doc(hidden)]
    pub fn end_receiver(&self) -> Receiver<()> {
        self.end.receiver()
    }

    /// A snapshot of the groups of all processes. Reads the pools without asking a process, see
    /// [`crate::groups`]. Costs about ten microseconds per process and one microsecond per group.
    ///
    /// Processes always count the entries into groups, and **measure times only while somebody asks
    /// for them**: [`Session::monitor`], alerts, the live page or metrics. Until then, `wall_ns`
    /// and the other times are 0.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # use profiler_parent::groups::Probes;
    /// # fn example(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let _measured = session.monitor(Probes::ALL);
    /// let earlier = session.groups();
    /// // … a second later:
    /// for group in session.groups().since(&earlier).merged() {
    ///     println!("{}: {} ns", group.name, group.totals.wall_ns);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn groups(&self) -> GroupsSnapshot {
        self.groups_within(GROUPS_TIMEOUT)
    }

    /// Like [`Session::groups`], with another timeout than 5 s. No further pool is read after the
    /// timeout. It matters only where pools are files.
    pub fn groups_within(&self, timeout: Duration) -> GroupsSnapshot {
        self.groups.snapshot(timeout)
    }

    /// Measures these probes of groups in all processes, including those started later, until the
    /// monitor is dropped. Several monitors may request the same probes. Does not wait: a child
    /// starts to measure when it receives the message, and [`GroupsSnapshot`] reports what each
    /// process measures. Untrusted children are not asked for [`Probes::CPU`]: it needs a system
    /// call for which their sandbox might kill them.
    pub fn monitor(&self, probes: Probes) -> Monitor {
        let waker = self.supervisor.handle.waker();
        Monitor::new(Arc::clone(&self.probes), move || waker.wake(), probes)
    }

    /// The limit on the bytes that all processes together may hold.
    pub fn memory_limit(&self) -> ByteLimit {
        self.limit.now()
    }

    /// Changes the limit, without a gap in the recording. A higher limit is available at once to
    /// the processes that need it. For a lower limit, the oldest data of all processes is
    /// destroyed. Returns when all processes have confirmed that they obey, or after a second, with
    /// the number of bytes that are still held beyond the limit.
    ///
    /// That number is not zero in two cases:
    ///
    /// - A process is stopped (for example in a debugger) and holds more than the others can free
    ///   in its place.
    /// - The limit is below the minimum of all processes: each keeps its header, two small chunks,
    ///   and the chunks (up to 1 MiB each) into which threads are recording until they are full or
    ///   idle for a second.
    ///
    /// [`ProcessReport::owed_bytes`] shows which processes were asked to free memory. While more
    /// than the limit is held, no process gets more memory and no process joins; the sum shrinks
    /// whenever a process frees memory. The excess disappears when the stopped process continues or
    /// ends.
    ///
    /// # Errors
    /// [`LimitError`]: less than this process needs, or more than
    /// [`SessionBuilder::max_memory_limit`].
    pub fn set_memory_limit(&self, limit: impl Into<ByteLimit>) -> Result<u64, LimitError> {
        limit::set(&self.limit, &self.supervisor.handle, limit.into())
    }

    /// The directory of this session's pools, if they are files: the argument of `profiler recover`
    /// and `profiler info`.
    pub fn pool_directory(&self) -> Option<&Path> {
        self.pools.as_deref().map(PoolDirectory::path)
    }

    /// Stops recording in all processes and discards all data. Children continue to run.
    pub fn stop(self) {
        drop(self);
    }

    fn start(config: SessionConfig) -> Result<Self, SessionError> {
        let SessionConfig {
            own_process,
            outer,
            name,
            params,
            own_features,
            observes_crashes,
            most,
            time,
            patience,
            pools,
        } = config;
        let window_ns = params.window_ns;
        let limit = Arc::new(MemoryLimit::new(params.limit, most));
        let processes = Arc::<ProcessTable>::default();
        let groups = Arc::new(SnapshotReader::new(Arc::clone(&processes), time));
        let probes = Arc::new(match own_process.is_recorded() {
            true => ProbeRegistry::default(),
            false => ProbeRegistry::of_children(),
        });
        let symbols = SymbolStore::default();
        let supervisor = Supervisor::start(SupervisorContext {
            params,
            time,
            limit: Arc::clone(&limit),
            processes: Arc::clone(&processes),
            pools: pools.clone(),
            groups: Arc::clone(&groups),
            probes: Arc::clone(&probes),
            outer,
            symbols: symbols.clone(),
            observes_crashes,
        })?;
        match own_process.why_not() {
            None => supervisor.join_local_process(&name, own_features)?,
            Some(why) => supervisor.list_local_process(&name, why.to_string())?,
        }
        let end = EndSignal::default();
        let captures = Arc::new(CaptureSources {
            processes: Arc::clone(&processes),
            supervisor: supervisor.handle.clone(),
            time,
            window_ns,
            patience,
            symbols,
            pushes: Arc::default(),
            turn: Mutex::default(),
            session_end: end.receiver(),
        });
        let metrics = Arc::new(MetricsReader::new(MetricsSources {
            processes: Arc::clone(&processes),
            limit: Arc::clone(&limit),
            groups: Arc::clone(&groups),
            pushers: Arc::clone(&captures.pushes),
        }));
        let observers = ObserverRegistry::new(Arc::clone(&processes), time);
        Ok(Self {
            processes,
            limit,
            pools,
            groups,
            metrics,
            probes,
            captures,
            extensions: Arc::default(),
            observers,
            end,
            supervisor,
            own_process,
        })
    }
}

/// When a process started; 0 if that is not known.
fn start_of(pid: ProcessId) -> ProcessStart {
    let facts = crate::sys::facts_of(pid);
    facts.map(|facts| facts.start).unwrap_or_default()
}

impl Drop for Session {
    fn drop(&mut self) {
        self.supervisor.stop_joining();
        self.end.send();
        self.observers.close();
        self.probes.close();
        self.groups.close();
        self.supervisor.handle.control(Control::Stop, FAREWELL);
        self.here(profiler_core::session::stop);
        self.processes.hang_up();
        if let Some(pools) = &self.pools {
            pools.remove(); // now, regardless of remaining references
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
