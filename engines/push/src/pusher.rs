//! The pusher of a session: starts, ends and reports on the threads that push.
//!
//! Used by applications and by the command. It connects the modules of this crate: a capturer adds
//! batches to the spool, and a sender for each destination takes them.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender as ChannelSender, at, bounded, select};
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;
use profiler_parent::Session;
use profiler_parent::internal::pushers::{CaptureSeries, EngineSources, ListedPusher};
use profiler_sys::{QuietThread, spawn_quiet};

use super::capturing::Capturer;
use super::clock::end_of;
use super::destination::{PushDestination, check};
use super::destination_series::{DestinationSeries, PushedAddresses, UsedAddresses};
use super::encoders::{BatchEncoder, EngineEncoder};
use super::error::PushError;
use super::http_client::HttpClient;
use super::options::PushOptions;
use super::progress::PushProgress;
use super::queue::DestinationIndex;
use super::report::PushReport;
use super::sender::Sender;
use super::spool::{Spool, SpoolPhase};
use super::spool_access::prepare_spool;
use super::temporary_spool::TemporarySpool;

/// Pushes what a session records. Dropping it ends pushing at once; batches that wait stay in the
/// spool, if it has a directory of its own.
#[must_use = "a pusher ends when it is dropped"]
pub struct Pusher {
    pub(crate) progress: Arc<PushProgress>,
    /// Disconnected to end the capturing thread.
    stop: Option<ChannelSender<()>>,
    capturer: Option<QuietThread<()>>,
    senders: Option<RunningSenders>,
    /// The place in the metrics of the session, if it belongs to one.
    listed: Option<ListedPusher>,
    /// The addresses that no other pusher of the session can use meanwhile.
    addresses: Option<UsedAddresses>,
    /// The spool of a pusher that was given no directory. Dropped last.
    _temporary: Option<TemporarySpool>,
    /// The process that made it.
    pub(crate) maker: ProcessId,
    /// Whether it sends what dead pushers have left: see [`Sender`].
    pub(crate) needs_access: bool,
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
    pub(crate) fn new(
        spool: Spool,
        options: &PushOptions,
        temporary: Option<TemporarySpool>,
    ) -> Self {
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

    pub(crate) fn start_senders(
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
    pub(crate) fn drain(&mut self, until: Instant) {
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

/// Waits for a thread. Its panic has been reported by the panic hook.
fn join(thread: Option<QuietThread<()>>) {
    if let Some(thread) = thread {
        let _ = thread.join();
    }
}

/// The spool of a session, and its temporary directory if it was given none.
pub(crate) fn open_spool(
    options: &PushOptions,
) -> Result<(Spool, Option<TemporarySpool>), PushError> {
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
