//! The options of a session, and its start.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipc_protocol::transport::ipc_channel::stale_sockets;
use profiler_core::ids::ByteLimit;
use profiler_core::session::{Features, SessionParams, StartError};
use profiler_core::time::{ClockKind, best_clock, use_clock};

use super::{Session, SessionConfig};
use crate::gather::state::{Millis, Patience};
use crate::pools::{PoolDirectory, PoolDirectoryError};
use crate::session_time::SessionTime;
use crate::supervisor::LocalProcessError;

/// Why a session could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The memory limit does not hold even this process.
    #[error("a memory limit of {limit} bytes is too small, this process alone needs {needed} bytes")]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// What is needed at least.
        needed: u64,
    },
    /// This process runs a session already.
    #[error("this process runs a session already")]
    AlreadyRunning,
    /// Recording could not start in this process.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Pools cannot be kept where they were asked for.
    #[error(transparent)]
    Pools(#[from] PoolDirectoryError),
    /// The system gave no thread or descriptor.
    #[error("cannot start the session: {0}")]
    System(#[from] std::io::Error),
}

impl From<LocalProcessError> for SessionError {
    fn from(error: LocalProcessError) -> Self {
        match error {
            LocalProcessError::LimitTooSmall { limit, needed } => Self::LimitTooSmall { limit, needed },
            LocalProcessError::Start(error) => Self::Start(error),
            LocalProcessError::System(error) => Self::System(error),
        }
    }
}

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
    patience: Patience,
    name: Option<String>,
    most: ByteLimit,
    clock: Option<ClockKind>,
    pools: Option<PathBuf>,
}

impl Default for SessionBuilder {
    fn default() -> Self {
        let features =
            Features::STACK_WALK.with(Features::CPU).with(Features::PROCESS_CPU).with(Features::MEMORY);
        Self {
            params: SessionParams { features, ..SessionParams::default() },
            own_features: None,
            patience: Patience::default(),
            name: None,
            most: ByteLimit::new(0),
            clock: None,
            pools: None,
        }
    }
}

impl SessionBuilder {
    /// Bytes that all processes together may hold: headers, data, and the data of dead
    /// processes. Default: 128 MiB. More than the machine has is allowed: memory is taken only
    /// as it is filled.
    pub fn memory_limit(mut self, limit: ByteLimit) -> Self {
        self.params.limit = limit;
        self
    }

    /// The largest limit that [`Session::set_memory_limit`] may set later. Reserves addresses in
    /// every process, no memory. Default: the limit at first, so it can only be lowered.
    pub fn max_memory_limit(mut self, limit: ByteLimit) -> Self {
        self.most = limit;
        self
    }

    /// Time between two samples of a thread. Default: 1 ms.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.params.interval_ns = nanos(interval);
        self
    }

    /// Records exactly this, beside markers and counters. Default: stacks, processor time of the selected threads and of
    /// the process, memory.
    pub fn features(mut self, features: Features) -> Self {
        self.params.features = features;
        self
    }

    /// Records this too.
    pub fn feature(mut self, feature: Features) -> Self {
        self.params.features = self.params.features.with(feature);
        self
    }

    /// Records exactly this of the parent's own process, beside its markers and counters. Default: what is recorded of
    /// its children. For a parent that does nothing but start them.
    pub fn own_features(mut self, features: Features) -> Self {
        self.own_features = Some(features);
        self
    }

    /// Records threads whose name contains this, ASCII case ignored; `pid:N` selects all of a
    /// process. Without a filter all threads are recorded.
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.params.filters.push(filter.into());
        self
    }

    /// Keeps only the last so much time.
    pub fn duration(mut self, window: Duration) -> Self {
        self.params.window_ns = nanos(window);
        self
    }

    /// How long a child may make no progress before a capture reads its memory instead.
    /// Default: 5 s.
    pub fn progress_timeout(mut self, timeout: Duration) -> Self {
        self.patience.progress_timeout = millis(timeout);
        self.patience.ask_every = Millis::new((millis(timeout).get() / 4).clamp(1, 250));
        self
    }

    /// How long a capture may wait for its children altogether. Default: 60 s.
    pub fn overall_deadline(mut self, deadline: Duration) -> Self {
        self.patience.deadline = millis(deadline);
        self
    }

    /// How the profile shows this process. Default: the program's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Uses this clock in all processes instead of the best that is safe here.
    pub fn clock(mut self, clock: ClockKind) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps the pools of all processes, this one's too, in files in a new directory below `path`, so
    /// that what was recorded outlives even the death of all processes: `profiler recover` makes a
    /// profile of it, and `profiler info` shows it. Without this, pools are memory that goes with
    /// the last process that has it.
    ///
    /// `path` is made if it is not there; a symbolic link, and a directory that others own or may
    /// enter, are refused. A session that ends in order ([`Session`] dropped) removes its directory,
    /// whatever children live on, as it ends all data: capture before. A parent that is killed, or
    /// exits without dropping its session, leaves it, and nothing removes it later.
    ///
    /// What it costs: the kernel writes the pages of a file on disk back from time to time, and a
    /// thread that records into one of them then may wait for the disk. Where only processes die and
    /// never the machine, a directory in memory (below `/dev/shm` or `$XDG_RUNTIME_DIR`) costs
    /// nothing. The memory limit bounds the pools' blocks, but not what the file system needs to
    /// describe them. When the file system is full, processes keep what they have, give up their own
    /// oldest data for new, and count what they drop. A file cannot be sealed as memory is:
    /// a process of the same user that makes one shorter kills the process that records into it.
    /// It can also be made longer, so that a child that is hostile could fill the disk: use this with
    /// children that are trusted. Needs Linux 5.14 and a file system that keeps what is allocated, as ext4, xfs
    /// and tmpfs do: one that copies on write (btrfs, ZFS) may find itself full at any store into a page.
    pub fn pool_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.pools = Some(path.into());
        self
    }

    /// Starts recording in this process; children join with [`Session::spawn`].
    ///
    /// # Errors
    /// [`SessionError`]; nothing runs then.
    pub fn start(self) -> Result<Session, SessionError> {
        if profiler_core::session::is_active() {
            return Err(SessionError::AlreadyRunning);
        }
        stale_sockets::sweep();
        // Also when none was asked for: an earlier session may have used another one.
        use_clock(self.clock.unwrap_or_else(best_clock));
        let params = self.params.normalized();
        let most = self.most.min(SessionParams::MAX_LIMIT);
        let config = SessionConfig {
            name: self.name.unwrap_or_else(program_name),
            own_features: self.own_features.unwrap_or(params.features),
            params,
            most,
            time: SessionTime::start_now(),
            patience: self.patience,
            pools: self.pools.as_deref().map(PoolDirectory::create).transpose()?.map(Arc::new),
        };
        Session::start(config)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> Millis {
    Millis::new(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Base name of the running program; no argument and no path is recorded.
fn program_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(std::path::Path::file_name).map(|name| name.to_string_lossy());
    name.map_or_else(|| "parent".to_owned(), std::borrow::Cow::into_owned)
}
