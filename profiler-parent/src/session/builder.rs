//! The options of a session, and its start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipc_protocol::transport::stale_sockets;
use profiler_core::ids::ByteLimit;
use profiler_core::session::{
    Features, OverheadBudget, SampleSource, SessionParams, effective_params,
};
use profiler_core::thread::ThreadFilter;
use profiler_core::time::{ClockKind, best_clock, use_clock};

use super::error::SessionError;
use super::own_process::OwnProcess;
use super::{Session, SessionConfig};
use crate::gather::state::{Millis, Patience};
use crate::pools::PoolDirectory;
use crate::session_time::SessionTime;
use crate::supervisor::{OuterSession, release_handed_memory};

/// Builds a [`Session`].
///
/// ```no_run
/// use profiler_parent::{ByteLimit, Session};
///
/// let session = Session::builder().memory_limit(ByteLimit::new(64 << 20)).start()?;
/// # Ok::<(), profiler_parent::SessionError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until start()"]
pub struct SessionBuilder {
    params: SessionParams,
    own_features: Option<Features>,
    observes_crashes: bool,
    patience: Patience,
    name: Option<String>,
    most: ByteLimit,
    clock: Option<ClockKind>,
    pools: Option<PathBuf>,
}

impl Default for SessionBuilder {
    fn default() -> Self {
        Self {
            params: SessionParams {
                features: Self::DEFAULT_FEATURES,
                ..SessionParams::default()
            },
            own_features: None,
            observes_crashes: false,
            patience: Patience::default(),
            name: None,
            most: ByteLimit::new(0),
            clock: None,
            pools: None,
        }
    }
}

impl SessionBuilder {
    /// The features that are recorded by default: stacks, processor time of the selected threads
    /// and of the process, memory.
    pub const DEFAULT_FEATURES: Features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::PROCESS_CPU)
        .with(Features::MEMORY);

    /// The limit on the bytes that all processes together may hold: headers, data, and the data of
    /// dead processes. Default: 128 MiB. It may exceed the machine's memory: memory is used only as
    /// it is filled.
    pub fn memory_limit(mut self, limit: impl Into<ByteLimit>) -> Self {
        self.params.limit = limit.into();
        self
    }

    /// The largest limit that [`Session::set_memory_limit`] may set later. Reserves addresses in
    /// every process, but no memory. Default: the initial limit, so it can only be lowered.
    pub fn max_memory_limit(mut self, limit: impl Into<ByteLimit>) -> Self {
        self.most = limit.into();
        self
    }

    /// Time between two samples of a thread. Default: 1 ms, or the system's tick if that is longer
    /// (1 to 10 ms; usually 4): see [`SessionBuilder::sample_source`].
    pub fn interval(mut self, interval: Duration) -> Self {
        self.params.interval_ns = nanos(interval);
        self
    }

    /// Where the samples of running threads come from. Default: [`SampleSource::Automatic`], timers
    /// on the processor time of each thread, which are only as fine as the system's tick. For a
    /// shorter interval, choose [`SampleSource::Sigtrap`], which costs more.
    pub fn sample_source(mut self, source: SampleSource) -> Self {
        self.params.source = source;
        self
    }

    /// The part of each process's processor time that the profiler may use in it for sampling, in
    /// percent of the time that the process itself uses: 0.01 to 100. A value outside is replaced
    /// by the nearest one. Default: no limit.
    ///
    /// The cost is the time of the sampler's thread and of the signal handlers, without the
    /// system's part of a signal (some microseconds per sample). About once a second, each process
    /// compares the cost with the budget. If the cost is above the budget, the interval becomes a
    /// multiple of [`SessionBuilder::interval`], up to one second of processor time. It becomes
    /// shorter again when the cost has fallen below 70 % of the budget. The comparison itself costs
    /// nothing. A sample still has the processor time since the thread's previous sample, so a
    /// profile shows all of the time used, with fewer stacks. The profile also shows the interval
    /// in force over time (`profilerOverhead`).
    ///
    /// The budget is a goal, not a limit: it is exceeded for some seconds after the load changes,
    /// and if samples that are one second apart still cost more. A process that is almost idle
    /// keeps its interval. With [`SampleSource::Signal`], samples become rarer, but the sampler's
    /// thread looks at the threads as often as before.
    pub fn overhead_budget(mut self, percent: f64) -> Self {
        self.params.overhead_budget = Some(OverheadBudget::from_percent(percent));
        self
    }

    /// Records exactly these features, in addition to markers and counters. Default:
    /// [`Self::DEFAULT_FEATURES`]. Features that this system does not support
    /// ([`Features::available`]) are no error, and add nothing.
    pub fn features(mut self, features: Features) -> Self {
        self.params.features = features;
        self
    }

    /// Adds a feature to record.
    pub fn feature(mut self, feature: Features) -> Self {
        self.params.features = self.params.features.with(feature);
        self
    }

    /// Records exactly these features in the parent's own process, in addition to its markers and
    /// counters. Default: the features of its children. Meant for a parent that only starts
    /// children.
    pub fn own_features(mut self, features: Features) -> Self {
        self.own_features = Some(features);
        self
    }

    /// Records the crashes of programs that are started with [`Session::spawn_observed`]: the
    /// stack, the signal and the address. Default: no. The programs get handlers for `SIGSEGV`,
    /// `SIGBUS`, `SIGILL`, `SIGFPE`, `SIGABRT` and `SIGTRAP` where the action is the default, and
    /// end by the same signal. `docs/crashes.md` lists the exceptions. Requires the feature
    /// `observed`.
    #[cfg(feature = "observed")]
    pub fn observe_crashes(mut self, observes: bool) -> Self {
        self.observes_crashes = observes;
        self
    }

    /// Records threads whose name contains `filter`, ASCII case ignored; `pid:N` selects all
    /// threads of a process. Without a filter all threads are recorded. A filter that can select no
    /// thread, such as an empty one, is an error of [`Self::start`].
    ///
    /// This decides what is recorded. [`observe::Filter`](crate::observe::Filter) selects recorded
    /// markers for one observer, by patterns, and changes nothing about the recording.
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.params.filters.push(filter.into());
        self
    }

    /// Keeps only data of the last `window`.
    pub fn duration(mut self, window: Duration) -> Self {
        self.params.window_ns = nanos(window);
        self
    }

    /// The longest time without progress of a child, after which a capture reads the child's memory
    /// instead. Default: 5 s.
    pub fn progress_timeout(mut self, timeout: Duration) -> Self {
        self.patience.progress_timeout = millis(timeout);
        self.patience.ask_every = Millis::new((millis(timeout).get() / 4).clamp(1, 250));
        self
    }

    /// The longest time that a capture waits for its children altogether. Default: 60 s.
    pub fn overall_deadline(mut self, deadline: Duration) -> Self {
        self.patience.deadline = millis(deadline);
        self
    }

    /// The name of this process in the profile. Default: the program's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Uses this clock in all processes, instead of the best one that is safe on this machine. Has
    /// no effect in a process that records for another session: then that session's clock is used.
    pub fn clock(mut self, clock: ClockKind) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps the pools of all processes, including this one's, in files in a new directory below
    /// `path`. The recorded data then survives even the death of all processes: `profiler recover`
    /// makes a profile of it, and `profiler info` shows it. Without this, pools are memory that is
    /// freed with the last process that maps it.
    ///
    /// `path` is created if it does not exist. A symbolic link, and a directory that other users
    /// own or may enter, are refused. A session that ends in order ([`Session`] dropped) removes
    /// its directory, even if children continue to run, because the end of a session discards all
    /// data. Capture before that. A parent that is killed, or exits without dropping its session,
    /// leaves the directory, and nothing removes it later.
    ///
    /// Costs and risks:
    ///
    /// - The kernel writes the pages of a file on disk back from time to time, and a thread that
    ///   records into such a page may then wait for the disk. If only processes fail and never the
    ///   machine, use a directory in memory (below `/dev/shm` or `$XDG_RUNTIME_DIR`), which avoids
    ///   this cost.
    /// - The memory limit bounds the pools' blocks, but not the file system's metadata for them.
    ///   When the file system is full, processes keep their data, discard their own oldest data for
    ///   new data, and count what they drop.
    /// - A file cannot be sealed like memory: a process of the same user that truncates it kills
    ///   the process that records into it. A hostile child could also extend it and fill the disk:
    ///   use this only with trusted children.
    /// - It needs Linux 5.14 and a file system that keeps allocated blocks, such as ext4, xfs and
    ///   tmpfs. A copy-on-write file system (btrfs, ZFS) may run out of space at any store into a
    ///   page.
    pub fn pool_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.pools = Some(path.into());
        self
    }

    /// Starts recording in this process; children join with [`Session::spawn`],
    /// and other processes by themselves, see [`Session::prepare`].
    ///
    /// A session may start below another one, such as that of `profiler record`. Each process is
    /// then recorded by one of them: the children of this session by this session. This process
    /// stays with the other session if it called `profiler_child::init()` before
    /// ([`Session::why_unrecorded`]). The other session lists the processes that it does not
    /// record. `docs/nested-sessions.md` describes the rules.
    ///
    /// # Errors
    /// [`SessionError`]; nothing runs then.
    pub fn start(self) -> Result<Session, SessionError> {
        check_filters(&self.params.filters)?;
        let own_process = OwnProcess::take()?;
        let outer = OuterSession::of_environment();
        stale_sockets::sweep();
        if own_process.is_recorded() && outer.is_some() {
            release_handed_memory();
        }
        let time = time_of(&own_process, self.clock);
        let params = effective_params(self.params);
        let most = self.most.min(SessionParams::MAX_LIMIT);
        let config = SessionConfig {
            own_process,
            outer,
            name: self.name.unwrap_or_else(program_name),
            own_features: self.own_features.unwrap_or(params.features),
            observes_crashes: self.observes_crashes,
            params,
            most,
            time,
            patience: self.patience,
            pools: self
                .pools
                .as_deref()
                .map(PoolDirectory::create)
                .transpose()?
                .map(Arc::new),
        };
        Session::start(config)
    }
}

/// Whether each filter can select a thread.
fn check_filters(filters: &[String]) -> Result<(), SessionError> {
    let (count, most) = (filters.len(), SessionParams::MAX_FILTERS);
    if count > most {
        return Err(SessionError::TooManyFilters { count, most });
    }
    let mut all = filters.iter();
    let nonsense = all.find_map(|filter| Some((filter, ThreadFilter::why_nonsense(filter)?)));
    match nonsense {
        Some((filter, why)) => Err(SessionError::Filter {
            filter: filter.clone(),
            why,
        }),
        None => Ok(()),
    }
}

/// The time of a session that starts now.
fn time_of(own_process: &OwnProcess, clock: Option<ClockKind>) -> SessionTime {
    if !own_process.is_recorded() {
        return SessionTime::start_on_line();
    }
    // Also without a requested clock: an earlier session may have used another one.
    use_clock(clock.unwrap_or_else(best_clock));
    SessionTime::start_now()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> Millis {
    Millis::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Base name of the running program; arguments and path are not recorded.
fn program_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path
        .as_deref()
        .and_then(std::path::Path::file_name)
        .map(|name| name.to_string_lossy());
    name.map_or_else(|| "parent".to_owned(), std::borrow::Cow::into_owned)
}
