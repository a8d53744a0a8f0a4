//! Writes the profile of a session that the environment has asked for.
//!
//! One thread, which exists only if the profile is written at a signal or after some time. It ends
//! with the [`super::EnvSession`]. Invariant: the thread of the program waits for it only when it
//! ends the session.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ipc_protocol::environment::{WriteAt, is_verbose};
use profiler_sys::{QuietThread, spawn_quiet, tell};

use super::EnvSessionError;
use crate::capture::{CaptureError, CaptureReport};
use crate::session::Session;
use crate::sys::SignalBell;

/// The signal at which a profile is written. Gecko's profiler writes one at the same signal.
pub(super) const SIGNAL: i32 = libc::SIGUSR2;

/// The longest sleep between two looks at the signals.
const LONG: Duration = Duration::from_secs(3600);

/// The number of the last signal, while the thread goes on.
const GOES_ON: u64 = u64::MAX;

/// What became of a profile.
type Written = Result<CaptureReport, CaptureError>;

/// What the program and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    /// `None` when recording has ended.
    session: Mutex<Option<Arc<Session>>>,
    file: PathBuf,
    /// The last profile that the thread has written.
    written: Mutex<Option<Written>>,
}

impl Shared {
    pub(super) fn new(session: &Arc<Session>, file: PathBuf) -> Self {
        Self {
            session: Mutex::new(Some(Arc::clone(session))),
            file,
            written: Mutex::default(),
        }
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        lock(&self.session).clone()
    }

    /// Writes the profile.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub(super) fn save(&self) -> Written {
        let session = self.session().ok_or(CaptureError::SessionOver)?;
        session.capture().save(&self.file)
    }

    /// Ends the session, unless the program keeps it.
    pub(super) fn end_session(&self) {
        let session = lock(&self.session).take();
        drop(session); // takes a while: without the lock
    }

    pub(super) fn take_written(&self) -> Option<Written> {
        lock(&self.written).take()
    }

    /// Writes the profile on the thread, and keeps the result.
    fn save_and_keep(&self) {
        let written = self.save();
        if let Err(error) = &written
            && is_verbose()
        {
            tell(&format!("profiler: the profile is not written: {error}"));
        }
        *lock(&self.written) = Some(written);
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. Dropping the value ends it, after the profile that it is writing.
#[derive(Debug)]
pub(super) struct Writer {
    stop: Option<Stop>,
    thread: Option<QuietThread<()>>,
}

/// How the thread is told to end.
#[derive(Debug)]
enum Stop {
    /// The channel is disconnected.
    Channel(Sender<()>),
    /// The number of signals until then is set, and the bell is rung.
    Bell(Arc<AtomicU64>, SignalBell),
}

impl Writer {
    /// Starts the thread if one is needed.
    pub(super) fn start(
        shared: &Arc<Shared>,
        write_at: WriteAt,
    ) -> Result<Option<Self>, EnvSessionError> {
        let shared = Arc::clone(shared);
        let (stop, body): (Stop, Box<dyn FnOnce() + Send>) = match write_at {
            WriteAt::After(time) => {
                let (end, ended) = bounded(0);
                let body = move || write_after(&shared, time, &ended);
                (Stop::Channel(end), Box::new(body))
            }
            WriteAt::Signal => {
                let bell = SignalBell::install(SIGNAL)?;
                let (seen, last) = (bell.rings(), Arc::new(AtomicU64::new(GOES_ON)));
                let stop = Stop::Bell(Arc::clone(&last), bell);
                (
                    stop,
                    Box::new(move || write_at_signals(&shared, bell, seen, &last)),
                )
            }
            _ => return Ok(None),
        };
        let thread = spawn_quiet("profiler-env", body).map_err(EnvSessionError::Thread)?;
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        match self.stop.take() {
            Some(Stop::Channel(end)) => drop(end),
            Some(Stop::Bell(last, bell)) => {
                last.store(bell.rings().into(), Ordering::Release);
                bell.ring();
            }
            None => {}
        }
        // The thread may drop the session last, but not this value.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Writes one profile when the time has passed, and ends the session.
fn write_after(shared: &Shared, time: Duration, ended: &Receiver<()>) {
    if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
        shared.save_and_keep();
        shared.end_session();
    }
}

/// Writes a profile for each signal up to the number in `last`. Signals that arrive while one is
/// written cause one more.
fn write_at_signals(shared: &Shared, bell: SignalBell, mut seen: u32, last: &AtomicU64) {
    loop {
        // First: the ring that ends the thread is not a signal.
        let rings = bell.rings();
        let last = last.load(Ordering::Acquire);
        let is_over = last != GOES_ON;
        let arrived = u32::try_from(last).unwrap_or(rings);
        if arrived != seen {
            seen = arrived;
            shared.save_and_keep();
        } else if !is_over {
            bell.wait(rings, LONG);
        }
        if is_over {
            return;
        }
    }
}
