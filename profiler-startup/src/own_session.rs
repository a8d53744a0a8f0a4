//! The session of a program that no other session records, until the process exits.
//!
//! A thread waits for the end of the process and then writes the profile, because the thread that
//! exits may have interrupted any code. Invariants: in `exit`, the exiting thread uses only atomics
//! and waits for a limited time; in a forked child, nothing here waits or has an effect.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipc_protocol::environment::is_verbose;
use profiler_parent::{CaptureError, CaptureReport, EnvSession, WriteAt};
use profiler_sys::{spawn_quiet, wait_on_word, wake_word};

/// How long an exit waits for the profile.
const LONGEST_EXIT: Duration = Duration::from_secs(120);
/// The longest sleep between two looks at the state.
const LONG: Duration = Duration::from_secs(3600);

static SESSION: Mutex<Option<EnvSession>> = Mutex::new(None);
/// The process that has the session; 0 before. A forked child has the number of its parent.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// What the thread that writes the profile has to do.
static STATE: AtomicU32 = AtomicU32::new(NONE);

/// There is no thread.
const NONE: u32 = 0;
/// The thread waits.
const WAITS: u32 = 1;
/// The process exits, and waits for the thread.
const EXITS: u32 = 2;
/// The thread has nothing left to do.
const DONE: u32 = 3;

/// Keeps the session until the process exits.
///
/// # Errors
/// If the system refuses the thread that writes the profile; the session has ended then.
pub(crate) fn keep(session: EnvSession) -> io::Result<()> {
    OWNER.store(std::process::id(), Ordering::Release);
    // At an exit, there is nothing to write.
    let needs_thread = session.write_at() != WriteAt::Signal;
    *lock() = Some(session);
    if !needs_thread {
        return Ok(());
    }
    STATE.store(WAITS, Ordering::Release);
    if let Err(error) = spawn_quiet("profiler-exit", await_exit) {
        STATE.store(NONE, Ordering::Release);
        drop(lock().take());
        return Err(error);
    }
    // SAFETY: the handler is a static function; registering allocates and cannot run it.
    unsafe { libc::atexit(at_exit) };
    Ok(())
}

/// Ends the session that [`init`](crate::init) has started, and returns what became of its profile,
/// as [`EnvSession::finish`] does. `None` if there is no such session. For programs that end in
/// another way than by `exit`, and for those that want the result.
///
/// # Errors
/// [`CaptureError`]; the file is as before then.
pub fn finish() -> Result<Option<CaptureReport>, CaptureError> {
    if !is_owner() {
        return Ok(None);
    }
    let finished = finish_session();
    change(WAITS, DONE);
    finished
}

/// Prints why the profile is not written, if the environment asks for it.
pub(crate) fn tell_error(error: &CaptureError) {
    if is_verbose() {
        profiler_child::tell(&format!("the profile is not written: {error}"));
    }
}

/// Other callers wait until the profile is written.
fn finish_session() -> Result<Option<CaptureReport>, CaptureError> {
    let mut place = lock();
    let session = place.take();
    let finished = session.map_or(Ok(None), EnvSession::finish);
    drop(place);
    finished
}

fn lock() -> MutexGuard<'static, Option<EnvSession>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_owner() -> bool {
    OWNER.load(Ordering::Acquire) == std::process::id()
}

/// Changes the state, and wakes who waits for that. False if the state was another one.
fn change(from: u32, to: u32) -> bool {
    let changed = STATE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    wake_word(&STATE);
    changed.is_ok()
}

/// The thread: waits until the process exits, and writes the profile.
fn await_exit() {
    while STATE.load(Ordering::Acquire) == WAITS {
        wait_on_word(&STATE, WAITS, LONG);
    }
    if let Err(error) = finish_session() {
        tell_error(&error);
    }
    change(EXITS, DONE);
}

/// Runs inside `exit`: see the [module](self).
extern "C" fn at_exit() {
    if !is_owner() || !change(WAITS, EXITS) {
        return;
    }
    let began = now();
    while STATE.load(Ordering::Acquire) == EXITS && began.elapsed() < LONGEST_EXIT {
        wait_on_word(&STATE, EXITS, Duration::from_secs(1));
    }
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}
