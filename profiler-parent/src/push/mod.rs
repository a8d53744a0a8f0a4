//! Pushes what a session records to engines that people already run, continuously and within bounds.
//!
//! Called by applications through [`Session::push_to`](crate::Session::push_to) and by
//! `profiler record --push`. The pusher lives in the parent. It reads the pools as a capture does, so
//! the recorded processes are not involved, and no endpoint can make them wait.
//!
//! ```text
//! pools ──capturing thread──▶ spool on disk ──sender thread──▶ encoder ──▶ bodies ──▶ endpoint
//!         every period: what    bounded; the    one per                    HTTP, gzip; retried
//!         was recorded since    oldest batch    destination                until accepted
//!         the previous batch    is lost first
//! ```
//!
//! A batch is an ordinary profile. It stays in the spool until all destinations have it, also when
//! this process dies: the next pusher with the same spool sends it. Invariants: memory and disk are
//! bounded, whatever the endpoints do; every entry is in one batch or counted as missed; every batch
//! is sent, rejected, lost or waits, for each destination; a body has the same identifier in all
//! attempts.

mod attempts;
mod base64;
pub(crate) mod batch;
mod capturing;
pub(crate) mod destination;
mod directory_lock;
mod encoders;
mod files;
pub(crate) mod http_client;
#[cfg(test)]
mod metrics_tests;
mod progress;
mod queue;
mod report;
mod request;
mod sender;
#[cfg(test)]
mod series_tests;
mod spool;
mod spool_access;
mod spool_home;
mod stored_identity;
mod temporary_spool;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "push-tls"))]
mod tls_tests;

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender as ChannelSender, bounded};
use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::sys::{self, spawn_quiet};

pub use destination::{PushDestination, PushEngine, Secret};
pub use files::push_files;
pub use report::{DestinationReport, PushReport, PushedAmount};

use crate::capture::CaptureSources;
use crate::export::ExportError;
use crate::export::bodies::BodySink;
use crate::push_sums::ListedPusher;
use capturing::Capturer;
use encoders::EngineEncoder;
use http_client::HttpClient;
use progress::PushProgress;
use queue::DestinationIndex;
use sender::Sender;
use spool::{BatchToSend, Spool, SpoolPhase};
use spool_access::prepare_spool;
use temporary_spool::TemporarySpool;

/// The reason why nothing can be pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The address of a destination cannot be used.
    #[error("cannot push to {address:?}: {reason}")]
    Address {
        /// The address, without user and password.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A secret cannot be read.
    #[error("cannot take a secret from {origin}: {reason}")]
    Secret {
        /// The file or the environment variable.
        origin: String,
        /// The system's reason.
        reason: String,
    },
    /// The directory of the spool cannot be used.
    #[error("cannot use the spool {}: {source}", path.display())]
    Spool {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file that is to be pushed cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for pushing: {0}")]
    Thread(#[source] io::Error),
    /// The options have no destination.
    #[error("there is no destination")]
    NoDestination,
}

/// Where a pusher sends what a session records, how often, and within which bounds.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are given to Session::push_to"]
pub struct PushOptions {
    destinations: Vec<PushDestination>,
    period: Duration,
    spool: Option<PathBuf>,
    spool_limit: ByteLimit,
    request_timeout: Duration,
    identity: PushIdentity,
}

/// The service that the pushed data belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PushIdentity {
    /// Its name; by default that of the parent process.
    pub(crate) service: Option<String>,
    /// Its version.
    pub(crate) version: Option<String>,
    /// The name of the host; by default that of this machine.
    pub(crate) host: Option<String>,
}

impl PushOptions {
    /// Pushes to this destination, every ten seconds. Batches that are not sent yet are kept in a
    /// temporary directory, up to 256 MiB.
    pub fn to(destination: PushDestination) -> Self {
        Self {
            destinations: vec![destination],
            period: Duration::from_secs(10),
            spool: None,
            spool_limit: ByteLimit::new(256 << 20),
            request_timeout: Duration::from_secs(30),
            identity: PushIdentity::default(),
        }
    }

    /// Pushes to this destination, too.
    pub fn and_to(mut self, destination: PushDestination) -> Self {
        self.destinations.push(destination);
        self
    }

    /// The time between two batches, from 100 ms.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(Duration::from_millis(100));
        self
    }

    /// Keeps batches in this directory, where they outlive this process: the next pusher with this
    /// directory sends them, with the service, version and host of this one. Several pushers may
    /// have the same directory. It must belong to this user, and no other may write in it.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool = Some(directory.into());
        self
    }

    /// The limit on the bytes of waiting batches. Beyond it, the oldest batch is removed and
    /// counted as lost.
    pub const fn spool_limit(mut self, limit: ByteLimit) -> Self {
        self.spool_limit = limit;
        self
    }

    /// The longest time for one request. Default: 30 s.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// The name of the service that the data belongs to. By default the name of this process.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.identity.service = Some(name.into());
        self
    }

    /// The name of the host, for a machine or a container whose own name says nothing.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.identity.host = Some(name.into());
        self
    }

    /// The version of the program, by which releases can be compared.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.identity.version = Some(version.into());
        self
    }
}

/// Encodes a batch for an engine.
trait BatchEncoder: Send + Sync {
    /// Passes all bodies of a batch to `bodies`, always the same ones in the same order.
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError>;
}

/// Pushes what a session records. Dropping it ends pushing at once; batches that wait stay in the
/// spool, if it has a directory of its own.
#[must_use = "a pusher ends when it is dropped"]
pub struct Pusher {
    progress: Arc<PushProgress>,
    /// Disconnected to end the capturing thread.
    stop: Option<ChannelSender<()>>,
    capturer: Option<JoinHandle<()>>,
    senders: Option<RunningSenders>,
    /// The place in the metrics of the session, if it belongs to one.
    listed: Option<ListedPusher>,
    /// The spool of a pusher that was given no directory. Dropped last.
    _temporary: Option<TemporarySpool>,
    /// The process that made it.
    maker: ProcessId,
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher")
            .field("addresses", &self.progress.addresses)
            .finish_non_exhaustive()
    }
}

/// What a pusher gets from its session.
pub(crate) struct PushSources {
    pub(crate) captures: Arc<CaptureSources>,
    /// Disconnected when the session ends.
    pub(crate) session_end: Receiver<()>,
}

impl Pusher {
    pub(crate) fn start(sources: PushSources, options: &PushOptions) -> Result<Self, PushError> {
        let encoder = EngineEncoder::of_batches(options.identity.clone());
        let encoder: Arc<dyn BatchEncoder> = Arc::new(encoder);
        let (directory, temporary) = spool_directory(options.spool.as_deref())?;
        let mut pusher = Self::new(&directory, options, temporary)?;
        let sums = Arc::clone(&sources.captures.pushes);
        pusher.start_senders(options, &encoder)?;
        pusher.start_capturer(sources, options.period)?;
        pusher.listed = Some(sums.list(Arc::<PushProgress>::clone(&pusher.progress)));
        Ok(pusher)
    }

    /// A pusher of the batches in a spool, without threads.
    fn new(
        directory: &Path,
        options: &PushOptions,
        temporary: Option<TemporarySpool>,
    ) -> Result<Self, PushError> {
        let PushOptions {
            destinations,
            spool_limit,
            identity,
            ..
        } = options;
        if destinations.is_empty() {
            return Err(PushError::NoDestination);
        }
        check(destinations)?;
        let spool = Spool::open(directory, spool_limit.get(), destinations, identity);
        let spool = spool.map_err(|source| PushError::Spool {
            path: directory.to_owned(),
            source,
        })?;
        let progress = PushProgress::new(destinations, Arc::new(spool));
        Ok(Self {
            progress: Arc::new(progress),
            stop: None,
            capturer: None,
            senders: None,
            listed: None,
            _temporary: temporary,
            maker: sys::process_id(),
        })
    }

    fn start_senders(
        &mut self,
        options: &PushOptions,
        encoder: &Arc<dyn BatchEncoder>,
    ) -> Result<(), PushError> {
        let (running, all_ended) = bounded(0);
        self.senders = Some(RunningSenders(all_ended));
        let destinations = options.destinations.iter().zip(&self.progress.counts);
        for (place, (destination, counts)) in destinations.enumerate() {
            let sender = Sender {
                index: DestinationIndex(place),
                destination: destination.clone(),
                spool: Arc::clone(&self.progress.spool),
                client: HttpClient::new(options.request_timeout),
                encoder: Arc::clone(encoder),
                counts: Arc::clone(counts),
            };
            let running = running.clone();
            let thread = spawn_quiet("profiler-push", move || {
                sender.run();
                drop(running);
            });
            thread.map_err(PushError::Thread)?;
        }
        Ok(())
    }

    fn start_capturer(&mut self, sources: PushSources, period: Duration) -> Result<(), PushError> {
        let (stop, stopped) = bounded(0);
        self.stop = Some(stop);
        let capturer = Capturer {
            captures: sources.captures,
            spool: Arc::clone(&self.progress.spool),
            period,
            report: Arc::clone(&self.progress.captures),
            series: Arc::default(),
            not_spooled: Cell::default(),
        };
        let session_end = sources.session_end;
        let thread = spawn_quiet("profiler-push", move || {
            capturer.run(&stopped, &session_end);
        });
        self.capturer = Some(thread.map_err(PushError::Thread)?);
        Ok(())
    }

    /// What the pusher has done so far.
    pub fn report(&self) -> PushReport {
        self.progress.report()
    }

    /// Captures once more, sends what waits, and returns what was done. Returns after `timeout`, or
    /// after the capture if that takes longer; a request that has no answer then ends by itself.
    /// Batches that could not be sent stay in the spool, if it has a directory of its own. Call
    /// this before the session ends.
    pub fn finish(mut self, timeout: Duration) -> PushReport {
        let until = end_of(timeout);
        self.stop = None;
        join(self.capturer.take());
        self.drain(until);
        self.report()
    }

    /// Sends what waits, until this time, and ends the senders.
    fn drain(&mut self, until: Instant) {
        self.progress.spool.set_phase(SpoolPhase::Draining(until));
        if let Some(RunningSenders(all_ended)) = self.senders.take() {
            // Disconnected when the last one ends. One may be within a request or a batch.
            let _ = all_ended.recv_deadline(until);
        }
        self.progress.spool.set_phase(SpoolPhase::Over);
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        if self.maker != sys::process_id() {
            self.forget_threads();
            return;
        }
        // The threads end by themselves: one may be within a request or a capture.
        self.progress.spool.set_phase(SpoolPhase::Over);
        self.stop = None;
        drop(self.listed.take()); // the metrics keep its numbers
    }
}

impl Pusher {
    /// Leaves alone what belongs to the threads. They do not exist in a forked child, and may have
    /// held any lock when it was forked.
    fn forget_threads(&mut self) {
        mem::forget(self.stop.take());
        mem::forget(self.capturer.take());
        mem::forget(self.senders.take());
        mem::forget(self.listed.take());
    }
}

/// Disconnected when all senders have ended.
struct RunningSenders(Receiver<()>);

/// The end of a time that begins now. A year stands for longer ones, which an [`Instant`] may not
/// be able to hold.
fn end_of(timeout: Duration) -> Instant {
    now() + timeout.min(Duration::from_secs(365 * 24 * 3600))
}

/// The present time. Pauses and the timeouts of sockets are in the system's time, for every clock of a
/// session.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

/// Waits for a thread. Its panic has been reported by the panic hook.
fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

/// Refuses destinations that no request can reach, and two with the same address: the spool knows
/// a destination by it.
fn check(destinations: &[PushDestination]) -> Result<(), PushError> {
    let mut addresses = HashSet::new();
    for destination in destinations {
        destination.check()?;
        if !addresses.insert(destination.address()) {
            return Err(PushError::Address {
                address: destination.address(),
                reason: "it is given twice",
            });
        }
    }
    Ok(())
}

/// The directory of a spool, and the temporary directory if it is one.
fn spool_directory(given: Option<&Path>) -> Result<(PathBuf, Option<TemporarySpool>), PushError> {
    let failed = |path| move |source| PushError::Spool { path, source };
    if let Some(given) = given {
        prepare_spool(given).map_err(failed(given.to_owned()))?;
        return Ok((given.to_owned(), None));
    }
    let made = TemporarySpool::create().map_err(failed(std::env::temp_dir()))?;
    Ok((made.path().to_owned(), Some(made)))
}
