//! The control thread: receives the parent's messages and carries them out.
//!
//! Started by `connect`, one per child process. All signals are blocked on it, and it ends with the
//! channel. Long work, such as writing a profile, is done on a separate thread, so the parent can
//! ask for its progress at any time.

use ipc_protocol::message::{RequestId, ToChild, ToParent};
use ipc_protocol::transport::{Receiver, Sender, TransportError};
use profiler_core::ids::ByteLimit;
use profiler_core::session::{self, SessionParams, StartOptions};

use crate::gather::{Files, Gathers};
use crate::outgoing::Outgoing;
use crate::shutdown;
use crate::updates::Updates;

/// The state of the control thread.
#[derive(Debug)]
pub(crate) struct Control {
    outgoing: Outgoing,
    updates: Updates,
    gathers: Gathers,
}

impl Control {
    pub(crate) fn new(sender: Sender<ToParent>, files: Files) -> Self {
        let outgoing = Outgoing::new(sender);
        shutdown::set_outgoing(outgoing.clone());
        let updates = Updates::new(outgoing.clone());
        let gathers = Gathers::new(outgoing.clone(), files);
        Self {
            outgoing,
            updates,
            gathers,
        }
    }

    /// Receives and handles messages until the parent is gone or the program has closed the
    /// channel. Recording continues afterwards, unless the parent disconnected without a message.
    pub(crate) fn run(mut self, mut receiver: Receiver<ToChild>) -> Result<(), TransportError> {
        if session::is_active() {
            session::set_chunk_listener(Some(self.updates.listener()));
        }
        let outgoing = self.outgoing.clone();
        session::set_wait_listener(Some(Box::new(move |waits| {
            outgoing.send(&ToParent::AskedWaits { waits });
        })));
        let ended = self.hear(&mut receiver);
        session::set_wait_listener(None);
        ended
    }

    /// Handles messages until the channel ends.
    fn hear(&mut self, receiver: &mut Receiver<ToChild>) -> Result<(), TransportError> {
        let mut welcome = false;
        loop {
            match receiver.recv() {
                Ok(message) => {
                    welcome = true;
                    self.obey(message);
                }
                Err(error) if error.is_recoverable() => {}
                Err(error) => {
                    let lost = matches!(error, TransportError::DescriptorLost(_));
                    if !welcome && !lost && !session::pool_outlives_all() {
                        // A parent sends its first message at once. This parent has refused the
                        // child or ended its session, so it will not read the data. If the parent
                        // was killed, a pool in a file may be recovered.
                        session::stop();
                    }
                    return Err(error);
                }
            }
        }
    }

    fn obey(&mut self, message: ToChild) {
        match message {
            ToChild::Start {
                request,
                params,
                allowance,
            } => {
                session::stop();
                self.start(request, params, allowance);
            }
            ToChild::EnsureStarted {
                request,
                params,
                allowance,
            } => self.start(request, params, allowance),
            ToChild::Stop { request } => self.done(request, session::stop),
            ToChild::Pause { request } => self.done(request, session::pause),
            ToChild::Resume { request } => self.done(request, session::resume),
            ToChild::PauseSampling { request } => self.done(request, session::pause_sampling),
            ToChild::ResumeSampling { request } => self.done(request, session::resume_sampling),
            ToChild::SetProbes { request, probes } => {
                self.done(request, || profiler_core::groups::set_probes(probes));
            }
            ToChild::WaitOnePeriodicSampling { request } => {
                self.wait_one_periodic_sampling(request)
            }
            ToChild::Echo { request } => self.done(request, || {}),
            ToChild::AwaitNextChunkManagerUpdate { allowance } => {
                session::set_allowance(allowance);
                self.updates.ask();
            }
            ToChild::DestroyReleasedChunksAtOrBefore { timestamp } => {
                session::destroy_released_chunks_at_or_before(timestamp);
            }
            ToChild::GatherProfile { id, spec } => self.gathers.start(id, spec),
            ToChild::CancelGather { id } => self.gathers.cancel(id),
            ToChild::GetGatherProfileProgress { id } => self.gathers.report_progress(id),
            ToChild::NamedWaits { waits } => session::name_waits(waits),
        }
    }

    fn start(&self, request: RequestId, params: SessionParams, allowance: ByteLimit) {
        let running = session::current_params();
        let options = StartOptions {
            allowance: Some(allowance),
            ..StartOptions::default()
        };
        let started = session::ensure_started(params, options).is_ok();
        if started && running != session::current_params() {
            session::set_chunk_listener(Some(self.updates.listener()));
        }
        self.outgoing.send(&ToParent::Done { request });
    }

    /// Waits on a separate thread: an interval may be long, and the parent may send other requests
    /// meanwhile.
    fn wait_one_periodic_sampling(&self, request: RequestId) {
        if session::sampling_stats().is_none() {
            return self.done(request, || {});
        }
        let outgoing = self.outgoing.clone();
        let wait = move || {
            session::wait_one_periodic_sampling();
            outgoing.send(&ToParent::Done { request });
        };
        if profiler_sys::spawn_quiet("profiler-wait", wait).is_err() {
            self.done(request, || {});
        }
    }

    fn done(&self, request: RequestId, action: impl FnOnce()) {
        action();
        self.outgoing.send(&ToParent::Done { request });
    }
}
