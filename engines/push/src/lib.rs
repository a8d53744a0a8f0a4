//! Pushes what a session records to engines that people already run, continuously and within
//! bounds.
//!
//! Called by applications through [`Session::push_to`](crate::Session::push_to) and by
//! `profiler record --push`. The pusher lives in the parent. It reads the pools as a capture does,
//! so the recorded processes are not involved, and no endpoint can make them wait.
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
//! bounded, whatever the endpoints do; every entry is in one batch or counted as missed; every
//! batch is sent, rejected, lost or waits, for each destination; a body has the same identifier in
//! all attempts, and the same bytes, except that stacks which a store has are left out of it.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod attempts;
pub(crate) mod batch;
mod capturing;
mod dead_directories;
pub(crate) mod destination;
mod destination_series;
mod directory_lock;
mod encoders;
mod error;
mod files;
pub(crate) mod http_client;
#[cfg(test)]
mod metrics_tests;
mod options;
pub mod otlp_answer;
mod progress;
mod queue;
mod report;
mod request;
mod sender;
#[cfg(test)]
mod series_tests;
mod spool;
mod spool_access;
mod spool_directory;
mod spool_state;
mod stored_stacks;
mod temporary_spool;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "tls"))]
mod tls_tests;

use std::collections::HashSet;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender as ChannelSender, at, bounded, select};
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;
use profiler_sys::spawn_quiet;

pub use destination::{PushDestination, PushEngine, Secret};
pub(crate) use destination_series::DestinationSeries;
pub use error::PushError;
pub use files::{OtherDestinations, push_files, push_spool};
pub(crate) use options::PushIdentity;
pub use options::PushOptions;
pub use report::{DestinationReport, PushReport, PushedAmount};

use capturing::Capturer;
use destination_series::{PushedAddresses, UsedAddresses};
use encoders::EngineEncoder;
use http_client::HttpClient;
use profiler_export::ExportError;
use profiler_export::bodies::BodySink;
use profiler_parent::Session;
use profiler_parent::internal::pushers::{CaptureSeries, EngineSources, ListedPusher};
use progress::PushProgress;
use queue::DestinationIndex;
use sender::Sender;
use spool::{BatchToSend, Spool, SpoolPhase};
use spool_access::prepare_spool;
use temporary_spool::TemporarySpool;

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
    /// The addresses that no other pusher of the session can use meanwhile.
    addresses: Option<UsedAddresses>,
    /// The spool of a pusher that was given no directory. Dropped last.
    _temporary: Option<TemporarySpool>,
    /// The process that made it.
    maker: ProcessId,
    /// Whether it sends what dead pushers have left: see [`Sender`].
    needs_access: bool,
    canceller: PushCanceller,
    /// Has a message if the sending at the end is cancelled.
    cancelled: Receiver<()>,
}

/// Cancels the sending at the end of a pusher: [`Pusher::finish`] then returns after its capture,
/// and does not wait for requests.
#[derive(Clone, Debug)]
pub struct PushCanceller(ChannelSender<()>);

impl PushCanceller {
    /// Treats waiting batches as if the time for sending had passed. Does nothing if the pusher has
    /// ended. If it is called before [`Pusher::finish`], that function does not wait for requests.
    pub fn cancel(&self) {
        // A second message says nothing new.
        let _ = self.0.try_send(());
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher")
            .field("addresses", &self.progress.addresses)
            .finish_non_exhaustive()
    }
}

impl Pusher {
    /// Pushes what all processes of a session record to engines outside of this process, until the
    /// pusher is dropped or [finished](Self::finish), which is to be done before the session ends.
    /// A pusher whose destination had one before continues its series: it sends what was recorded
    /// since. One with only new destinations begins with everything that the processes hold.
    ///
    /// # Errors
    /// [`PushError`]; nothing is pushed then.
    pub fn start(session: &Session, options: &PushOptions) -> Result<Self, PushError> {
        let sources = session.engine_sources();
        let series = sources.extension::<DestinationSeries>();
        let encoder = EngineEncoder::of_batches(options.identity.clone());
        let encoder: Arc<dyn BatchEncoder> = Arc::new(encoder);
        check(&options.destinations)?;
        let addresses = options.destinations.iter().map(PushDestination::address);
        let (used, series) = series.take(addresses.collect())?;
        let (spool, temporary) = open_spool(options)?;
        let mut pusher = Self::new(spool, options, temporary);
        let addresses = used.addresses();
        pusher.addresses = Some(used);
        let sums = Arc::clone(sources.pushers());
        pusher.start_senders(options, &encoder)?;
        pusher.start_capturer(sources, (addresses, series), options.period)?;
        pusher.listed = Some(sums.list(Arc::<PushProgress>::clone(&pusher.progress)));
        Ok(pusher)
    }

    /// A pusher of the batches in a spool, without threads.
    fn new(spool: Spool, options: &PushOptions, temporary: Option<TemporarySpool>) -> Self {
        let keeps_waiting = temporary.is_none();
        let progress = PushProgress::new(&options.destinations, Arc::new(spool), keeps_waiting);
        let (cancel, cancelled) = bounded(1);
        Self {
            progress: Arc::new(progress),
            stop: None,
            capturer: None,
            senders: None,
            listed: None,
            addresses: None,
            _temporary: temporary,
            maker: sys::process_id(),
            needs_access: false,
            canceller: PushCanceller(cancel),
            cancelled,
        }
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
                needs_access: self.needs_access,
            };
            let running = running.clone();
            let thread = spawn_quiet("profiler-push", move || {
                sender.run();
                drop((sender, running)); // the spool first
            });
            thread.map_err(PushError::Thread)?;
        }
        Ok(())
    }

    fn start_capturer(
        &mut self,
        sources: EngineSources,
        (addresses, series): (Arc<PushedAddresses>, CaptureSeries),
        period: Duration,
    ) -> Result<(), PushError> {
        let (stop, stopped) = bounded(0);
        self.stop = Some(stop);
        let capturer = Capturer {
            sources,
            spool: Arc::clone(&self.progress.spool),
            period,
            report: Arc::clone(&self.progress.captures),
            earlier: series.contents(),
            series: Arc::new(Mutex::new(series)),
            addresses,
        };
        let session_end = capturer.sources.session_end().clone();
        let thread = spawn_quiet("profiler-push", move || {
            capturer.run(&stopped, &session_end);
        });
        self.capturer = Some(thread.map_err(PushError::Thread)?);
        Ok(())
    }

    /// What the pusher has done so far. Empty in a forked child, which has no pusher.
    pub fn report(&self) -> PushReport {
        if !self.is_own() {
            return PushReport::default();
        }
        self.progress.report()
    }

    /// Cancels the sending at the end, from another thread.
    pub fn canceller(&self) -> PushCanceller {
        self.canceller.clone()
    }

    /// Captures once more, sends what waits, and returns what was done. Returns after `timeout`, or
    /// after the capture if that takes longer; a request that has no answer then ends by itself.
    /// Batches that could not be sent stay in the spool, if it was given a directory, and are lost
    /// otherwise. A [`PushCanceller`] ends the time for sending. Call this before the session ends.
    /// In a forked child, which has no pusher, does nothing and returns an empty report.
    pub fn finish(mut self, timeout: Duration) -> PushReport {
        if !self.is_own() {
            return PushReport::default();
        }
        let until = end_of(timeout);
        self.stop = None;
        join(self.capturer.take());
        self.drain(until);
        self.report()
    }

    /// Whether this process made the pusher. A forked child has none of its threads.
    fn is_own(&self) -> bool {
        self.maker == sys::process_id()
    }

    /// Sends what waits, until this time, and ends the senders.
    fn drain(&mut self, until: Instant) {
        self.progress.spool.set_phase(SpoolPhase::Draining(until));
        if let Some(RunningSenders(all_ended)) = self.senders.take() {
            // One may be within a request or a batch.
            select! {
                recv(all_ended) -> _ => {} // disconnected when the last one ends
                recv(self.cancelled) -> _ => {}
                recv(at(until)) -> _ => {}
            }
        }
        self.progress.spool.stop();
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        if !self.is_own() {
            self.forget_threads();
            return;
        }
        // The threads end by themselves: one may be within a request or a capture.
        self.progress.spool.stop();
        self.stop = None;
        drop(self.listed.take()); // the metrics keep its numbers
        // The last: what was added to the spool before is published.
        drop(self.addresses.take());
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
        mem::forget(self.addresses.take());
    }
}

/// Disconnected when all senders have ended.
struct RunningSenders(Receiver<()>);

/// The end of a time that begins now. A year stands for longer ones, which an [`Instant`] may not
/// be able to hold.
fn end_of(timeout: Duration) -> Instant {
    now() + timeout.min(Duration::from_secs(365 * 24 * 3600))
}

/// The present time. Pauses and the timeouts of sockets are in the system's time, for every clock
/// of a session.
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
    if destinations.is_empty() {
        return Err(PushError::NoDestination);
    }
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

/// The spool of a session, and its temporary directory if it was given none.
fn open_spool(options: &PushOptions) -> Result<(Spool, Option<TemporarySpool>), PushError> {
    let failed = |path| move |source| PushError::Spool { path, source };
    let (directory, temporary) = match &options.spool {
        Some(given) => {
            prepare_spool(given).map_err(failed(given.clone()))?;
            (given.clone(), None)
        }
        None => {
            let made = TemporarySpool::create().map_err(failed(std::env::temp_dir()))?;
            (made.path().to_owned(), Some(made))
        }
    };
    let limit = options.spool_limit.get();
    let spool = Spool::open(&directory, limit, &options.destinations, &options.identity);
    Ok((spool.map_err(failed(directory))?, temporary))
}
