//! Joins the session when the program calls the first function for C.
//!
//! The loader calls [`read`] when it loads the library: that only reads the environment, which the
//! program may change later. The first call of a function, on any thread, joins and waits for the
//! session's answer; calls on other threads wait meanwhile. Invariants: without a session a call
//! costs two loads; each wait is limited; nothing here panics; nothing is printed, unless
//! `MULTIPROCESS_PROFILER_VERBOSE` asks for the reason for which the process does not record.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use ipc_protocol::environment::is_verbose;
use profiler_child::{InitError, Invitation, Status, tell_if_off};
use profiler_core::session::{self, AfterForkError};
use profiler_sys::keeping_errno;

use crate::host;

/// Whether this process records is decided, or it has nothing to join.
const DECIDED: u8 = 0;
/// The first call joins.
const INVITED: u8 = 1;
/// A thread joins.
const JOINING: u8 = 2;

/// How long a thread waits for the session that it names itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a thread waits between two looks at another one that joins.
const LOOK: Duration = Duration::from_micros(100);
/// The longest wait of [`leave`] for the threads of the profiler.
const PATIENCE_AT_END: Duration = Duration::from_secs(1);

static STATE: AtomicU8 = AtomicU8::new(DECIDED);
/// What the environment said when the library was loaded, until it is followed.
static INVITATION: Mutex<Option<Allowed>> = Mutex::new(None);

/// For whom to record, or why the profiler must stay out of this process.
type Allowed = Result<Invitation, &'static str>;

/// The loader calls the functions of this section when it loads the library.
#[used]
#[unsafe(link_section = ".init_array")]
static READ: extern "C" fn() = read;

extern "C" fn read() {
    // Nothing here panics. If it did, the program would run without the profiler.
    let _ = keeping_errno(|| catch_unwind(read_environment));
}

fn read_environment() {
    let invitation = Invitation::of_environment();
    let tells_why = is_verbose();
    if !invitation.is_there() && !tells_why {
        return;
    }
    let allowed = host::why_forbidden().map_or(Ok(invitation), Err);
    if allowed.is_ok() || tells_why {
        if let Ok(mut place) = INVITATION.try_lock() {
            *place = Some(allowed);
        }
        STATE.store(INVITED, Ordering::Release);
    }
}

/// Whether the process records or not is not decided. If it is, [`session::is_active`] called
/// afterwards says whether it records.
#[inline]
fn is_pending() -> bool {
    STATE.load(Ordering::Acquire) != DECIDED
}

/// Whether this process does not record, and will not. Costs two loads.
#[inline]
pub(crate) fn is_off() -> bool {
    !is_pending() && !session::is_active()
}

/// Whether this process records. If that is not decided yet, joins, and waits for a limited time.
#[inline]
pub(crate) fn is_recording() -> bool {
    let is_pending = is_pending();
    session::is_active() || (is_pending && settle())
}

/// Joins, or waits until another thread has joined. Whether this process records then.
#[cold]
fn settle() -> bool {
    keeping_errno(|| {
        let patience = host::join_wait();
        let begins = STATE.compare_exchange(INVITED, JOINING, Ordering::AcqRel, Ordering::Acquire);
        match begins {
            Ok(_) => join_and_decide(|| follow(patience)),
            Err(_) => await_decision(patience),
        }
    });
    session::is_active()
}

/// Joins by `join`, on the one thread that has set [`JOINING`].
fn join_and_decide(join: impl FnOnce()) {
    set_hook(Box::new(|_| {})); // that of this library's copy of the standard library
    let _ = catch_unwind(AssertUnwindSafe(join));
    STATE.store(DECIDED, Ordering::Release);
}

fn follow(patience: Duration) {
    let invitation = match INVITATION.try_lock() {
        Ok(mut place) => place.take(),
        Err(TryLockError::Poisoned(place)) => place.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(invitation) = invitation {
        accept(invitation, patience);
    }
}

/// Joins, if that is allowed. If the process does not record then, and the environment asks for the
/// reason, prints it.
fn accept(invitation: Allowed, patience: Duration) {
    match invitation {
        Ok(invitation) => tell_if_off(&profiler_child::init_as(invitation, patience)),
        Err(why) if is_verbose() => profiler_child::tell(&format!("off: {why}")),
        Err(_) => {}
    }
}

/// Waits until the thread that joins has decided. In a forked child it may not exist: later calls
/// do not wait.
fn await_decision(patience: Duration) {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    let began = Instant::now();
    while STATE.load(Ordering::Acquire) == JOINING {
        if began.elapsed() > patience {
            return STATE.store(DECIDED, Ordering::Release);
        }
        std::thread::sleep(LOOK);
    }
}

/// Joins the session that the environment named when the library was loaded. Never panics.
pub(crate) fn join() {
    is_recording();
}

/// Joins the session at this address, if the agent is allowed to. Never panics.
pub(crate) fn join_at(address: &str) {
    if STATE.swap(JOINING, Ordering::AcqRel) != JOINING {
        let invitation = Invitation::of_session(address);
        let allowed = host::why_forbidden().map_or(Ok(invitation), Err);
        join_and_decide(move || accept(allowed, PATIENCE));
    }
}

/// Begins anew in a forked child. Never panics.
///
/// # Safety
/// As for [`profiler_child::after_fork`].
pub(crate) unsafe fn after_fork() {
    if STATE.load(Ordering::Acquire) == INVITED {
        return join(); // its parent process has not joined
    }
    STATE.store(JOINING, Ordering::Release);
    join_and_decide(|| {
        // SAFETY: the caller's promise.
        let status = unsafe { profiler_child::after_fork_silently(host::join_wait()) };
        // The package for Python calls in every process that has not joined.
        if !matches!(
            status,
            Status::Off(InitError::AfterFork(AfterForkError::NotForked))
        ) {
            tell_if_off(&status);
        }
    });
}

/// Ends the profiler in this process for good. Takes locks and allocates.
pub(crate) fn leave() {
    STATE.store(DECIDED, Ordering::Release);
    let _ = catch_unwind(|| profiler_child::leave(PATIENCE_AT_END));
}

#[cfg(test)]
mod tests {
    use profiler_sys::spawn_quiet;

    use super::*;

    /// One test, because the state is that of the process.
    #[test]
    fn calls_wait_while_another_thread_joins_and_only_once() {
        assert!(!is_recording(), "nothing is pending");
        STATE.store(JOINING, Ordering::Release);
        assert!(!is_off());
        await_decision(Duration::from_millis(1));
        assert!(is_off(), "later calls do not wait");
        STATE.store(JOINING, Ordering::Release);
        let waiting = spawn_quiet("waiting", || await_decision(Duration::from_secs(600))).unwrap();
        join_and_decide(|| {});
        waiting.join().unwrap();
        STATE.store(INVITED, Ordering::Release);
        assert!(!is_recording(), "there is no invitation");
        assert!(is_off());
    }
}
