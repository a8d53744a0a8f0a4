//! Captures on a sign: a profile of the last seconds when something happens, for programs that run
//! for weeks.
//!
//! [`Session::capture_on`](crate::Session::capture_on) starts a thread that looks for the signs of
//! a [`CaptureTrigger`] ten times a second, and writes the profiles that a [`CapturePolicy`]
//! allows.
//!
//! ```no_run
//! use std::time::Duration;
//! use profiler_parent::{ByteLimit, CapturePolicy, CaptureTrigger, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const SIGUSR2: i32 = 12;
//! let session = Session::builder().start()?;
//! let trigger = CaptureTrigger::crash()
//!     .or(CaptureTrigger::signal(SIGUSR2))
//!     .or(CaptureTrigger::memory_of_a_process(ByteLimit::mib(2048)));
//! let policy = CapturePolicy::in_directory("/var/log/app")
//!     .last(Duration::from_secs(30))
//!     .kept(8)
//!     .at_least_apart(Duration::from_secs(60));
//! let captures = session.capture_on(trigger, policy)?; // until it is dropped
//! # drop(captures);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: no thread of the application waits for a capture; a sign is a capture, is skipped or
//! is a failed capture, and each is counted; a file has its name only when it is complete; only
//! files that were written here are removed.
//!
//! ```text
//! flag, signal: atomics ──────────────┐
//! file: its metadata                  ├─▶ watch ──cause──▶ worker: rate, profile, newest files
//! deaths, deadlocks: process table    │
//! memory: /proc, once a second        │
//! alerts: listener ──queue────────────┘
//! ```

mod cause;
mod flag;
mod memory;
mod policy;
mod trigger;
mod watch;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_sys::spawn_quiet_for_host_code;

pub use cause::{CaptureCause, CaptureNotice};
pub use flag::CaptureFlag;
pub use policy::CapturePolicy;
pub use trigger::{CaptureTrigger, Deaths};

use crate::alerts::{AlertRules, Alerts, AlertsError};
use crate::capture::{CaptureError, CaptureSources};
use trigger::WatchContext;
use worker::{SharedState, Worker};

/// Why captures on a sign cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureOnError {
    /// The directory for the profiles cannot be created.
    #[error("cannot create the directory {} for profiles: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The name of the profiles cannot be a part of a file name.
    #[error("{name:?} cannot begin the name of a file")]
    Name {
        /// The name.
        name: String,
    },
    /// The program handles this signal, ignores it or blocks it, or another [`CaptureTrigger`] uses
    /// it. A handler of the program can raise a [`CaptureFlag`].
    #[error("signal {signal} has a handler, is ignored or is blocked")]
    SignalTaken {
        /// Its number.
        signal: i32,
    },
    /// Without the effect of this signal, the program could not be ended or stopped, or an error of
    /// the program would have no effect.
    #[error("signal {signal} ends or stops programs, or reports an error of the program")]
    SignalReserved {
        /// Its number.
        signal: i32,
    },
    /// The system refuses a handler for this signal.
    #[error("cannot handle signal {signal}: {source}")]
    Signal {
        /// Its number.
        signal: i32,
        /// The system's reason.
        source: io::Error,
    },
    /// The system does not tell how much memory a process uses.
    #[error("the system does not tell how much memory a process uses")]
    MemoryUnknown,
    /// The alerts cannot start.
    #[error(transparent)]
    Alerts(#[from] AlertsError),
    /// The system refused a thread.
    #[error("cannot start a thread for captures: {0}")]
    Thread(#[source] io::Error),
}

/// What has become of the signs so far. Their sum is the number of signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaptureCounts {
    /// Profiles that were written.
    pub written: u64,
    /// Signs without a profile of their own: they came too soon after another one, or together with
    /// it.
    pub skipped: u64,
    /// Profiles that could not be written. [`TriggeredCaptures::last_error`] has the reason.
    pub failed: u64,
}

/// The running captures on a sign. They end when this is dropped, or when the session ends.
///
/// Dropping it does not wait: a profile that is being written is completed.
#[derive(Debug)]
#[must_use = "captures on a sign end when this is dropped"]
pub struct TriggeredCaptures {
    state: Arc<SharedState>,
    /// Disconnected when this is dropped.
    _stop: Sender<()>,
}

impl TriggeredCaptures {
    /// Starts the thread. `start_alerts` starts alerts by rules.
    ///
    /// # Errors
    /// [`CaptureOnError`].
    pub(crate) fn start(
        captures: Arc<CaptureSources>,
        trigger: CaptureTrigger,
        policy: CapturePolicy,
        start_alerts: &dyn Fn(AlertRules) -> Result<Alerts, AlertsError>,
    ) -> Result<Self, CaptureOnError> {
        let files = policy.files()?;
        let state = Arc::<SharedState>::default();
        let context = WatchContext {
            processes: &captures.processes,
            state: &state,
            start_alerts,
        };
        let watches = trigger.start(&context)?;
        let worker = Worker::new(captures, policy, files, watches, Arc::clone(&state));
        let (stop, stopped): (Sender<()>, Receiver<()>) = bounded(0);
        spawn_quiet_for_host_code("profiler-signs", move || worker.run(&stopped))
            .map_err(CaptureOnError::Thread)?;
        Ok(Self { state, _stop: stop })
    }

    /// What has become of the signs so far.
    pub fn counts(&self) -> CaptureCounts {
        self.state.counts()
    }

    /// Why the latest capture that failed has failed.
    pub fn last_error(&self) -> Option<Arc<CaptureError>> {
        self.state.last_error()
    }

    /// The profiles that are kept, the oldest first.
    pub fn files(&self) -> Vec<PathBuf> {
        self.state.files()
    }
}
