//! The time between the announcement of a program and its recording.
//!
//! Most programs of a shell script end within milliseconds. The costs of a recording - its memory,
//! threads, the reading of the program's unwinding tables - would be several times those of such a
//! program. So a thread waits until the program has used [`ENOUGH`] processor time or has
//! run for 20 ms, and only then asks for memory and begins to record.
//!
//! ```text
//! program's thread:  load, announcement ──▶ main …            mpprof_marker: waits ─┐
//! profiler-io:            └─▶ waits 5, 5 and 10 ms ──▶ asks for memory ──▶ records ◀──┘
//! ```
//!
//! A function for C that needs the recording makes the thread ask at once, and waits for it, so no
//! marker is lost. Invariants: [`is_pending`] is false again after a limited time; in a forked
//! child it is false, because the thread is not there; the thread reads no environment.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_child::{Announced, Status};
use profiler_core::internal::sys::process_cpu_ns;
use profiler_core::session;

use crate::errno::keeping_errno;
use crate::{filters, forks};

/// When the thread looks whether the program has used processor time; the program is recorded from
/// the last look on in any case.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(5),
    Duration::from_millis(5),
    Duration::from_millis(10),
];
/// The processor time from which on a program is recorded, in nanoseconds.
const ENOUGH: u64 = 2_000_000;
/// How long the thread waits for memory. Nothing else waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether this process may record later.
static IS_PENDING: AtomicBool = AtomicBool::new(false);
/// Whether the thread exists in this process, and has not decided yet.
static HAS_THREAD: AtomicBool = AtomicBool::new(false);
static PROGRESS: Mutex<Progress> = Mutex::new(Progress {
    is_wanted: false,
    is_given_up: false,
    is_decided: false,
    patience: Duration::ZERO,
});
static CHANGED: Condvar = Condvar::new();

#[derive(Debug)]
struct Progress {
    /// A function for C has been called.
    is_wanted: bool,
    /// The process is not to be recorded after all.
    is_given_up: bool,
    /// Whether the process records is known.
    is_decided: bool,
    /// How long a function for C waits.
    patience: Duration,
}

fn progress() -> MutexGuard<'static, Progress> {
    PROGRESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the I/O thread wait for the occasion, and then record. Called when the library is loaded,
/// before the program begins.
/// `patience` is the longest time for which a function for C waits; `address` is that of the
/// session.
pub(crate) fn begin(announced: Announced, patience: Duration, address: Option<CString>) {
    // SAFETY: the handler is a static function of a library that is never unloaded.
    if unsafe { libc::pthread_atfork(None, None, Some(forget)) } != 0 {
        return; // no memory: a forked child would wait for a thread that it does not have
    }
    progress().patience = patience;
    IS_PENDING.store(true, Ordering::Release);
    HAS_THREAD.store(true, Ordering::Release);
    forks::follow(1, address);
    let start = Usage::now();
    let begun = profiler_child::begin_after_announcement(move || {
        let _decided = Decided;
        wait_for_occasion(start);
        record(announced, start);
    });
    if begun.is_err() {
        forks::follow_no_longer();
        drop(Decided);
    }
}

/// Called in a forked child.
extern "C" fn forget() {
    IS_PENDING.store(false, Ordering::Relaxed);
    HAS_THREAD.store(false, Ordering::Relaxed);
}

/// What a process has used of the system.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Whether the system filters the system calls of the calling thread, and how.
    filter: i32,
    /// Processor time in nanoseconds.
    time: Option<u64>,
}

impl Usage {
    fn now() -> Self {
        Self {
            // SAFETY: returns a number.
            filter: unsafe { libc::prctl(libc::PR_GET_SECCOMP) },
            time: process_cpu_ns(),
        }
    }

    /// Whether the program has used enough since `start`.
    fn is_enough(self, start: Self) -> bool {
        let used = self.time.zip(start.time);
        used.is_some_and(|(now, before)| now.saturating_sub(before) >= ENOUGH)
    }
}

/// Waits until the program is to be recorded, which began at `start`.
fn wait_for_occasion(start: Usage) {
    for pause in PAUSES {
        if is_wanted_within(pause) || Usage::now().is_enough(start) {
            return;
        }
    }
}

/// Waits until a function for C is called, or until the profiler leaves the process, for at most
/// `pause`. Returns whether that was so.
fn is_wanted_within(pause: Duration) -> bool {
    let waits = |progress: &mut Progress| !progress.is_wanted && !progress.is_given_up;
    let waited = CHANGED
        .wait_timeout_while(progress(), pause, waits)
        .unwrap_or_else(PoisonError::into_inner);
    waited.0.is_wanted || waited.0.is_given_up
}

/// Begins to record, unless the profiler is to leave the process, or the program has forbidden
/// system calls to one or all of its threads since `start`: it might be ended for those of the
/// profiler.
fn record(announced: Announced, start: Usage) {
    let is_allowed = Usage::now().filter == start.filter && filters::are_equal();
    let is_allowed = is_allowed && !progress().is_given_up;
    if !is_allowed || !matches!(announced.join(PATIENCE), Status::Recording) {
        forks::follow_no_longer();
    }
}

/// Ends the wait of the functions for C when it is dropped.
struct Decided;

impl Drop for Decided {
    fn drop(&mut self) {
        progress().is_decided = true;
        HAS_THREAD.store(false, Ordering::Release);
        IS_PENDING.store(false, Ordering::Release);
        CHANGED.notify_all();
    }
}

/// Whether this process may record later. If not, [`session::is_active`] called afterwards says
/// whether it records.
#[inline]
pub(crate) fn is_pending() -> bool {
    IS_PENDING.load(Ordering::Acquire)
}

/// Whether this process does not record, and is not about to. For the functions for C. Costs two
/// loads.
#[inline]
pub(crate) fn is_off() -> bool {
    !is_pending() && !session::is_active()
}

/// Whether this process records, for the functions for C. If that is not decided yet, waits for a
/// limited time, and only once.
#[inline]
pub(crate) fn is_recording() -> bool {
    let is_pending = is_pending();
    session::is_active() || (is_pending && keeping_errno(settled))
}

#[cold]
fn settled() -> bool {
    catch_unwind(settle).unwrap_or(false)
}

/// Makes the thread ask for memory now, and waits until it is decided whether this process records.
#[cold]
pub(crate) fn settle() -> bool {
    if session::is_forked() {
        return false; // forked by the bare system call, without handlers
    }
    let mut progress = progress();
    progress.is_wanted = true;
    CHANGED.notify_all();
    let patience = progress.patience;
    let waits = |progress: &mut Progress| !progress.is_decided;
    let waited = CHANGED
        .wait_timeout_while(progress, patience, waits)
        .unwrap_or_else(PoisonError::into_inner);
    if waited.1.timed_out() {
        IS_PENDING.store(false, Ordering::Release); // later calls do not wait
    }
    session::is_active()
}

/// Whether the thread exists in this process, and has not decided yet.
pub(crate) fn has_thread() -> bool {
    HAS_THREAD.load(Ordering::Acquire)
}

/// Tells the thread not to record. In a forked child, which does not have it, does nothing.
pub(crate) fn give_up() {
    if has_thread() {
        progress().is_given_up = true;
        CHANGED.notify_all();
    }
}

/// Waits until the thread has decided, for at most `patience`.
pub(crate) fn await_end(patience: Duration) {
    let waits = |progress: &mut Progress| !progress.is_decided;
    let _ = CHANGED.wait_timeout_while(progress(), patience, waits);
}

#[cfg(test)]
mod tests {
    use profiler_sys::spawn_quiet;

    use super::*;

    /// One test, because the state is that of the process.
    #[test]
    fn a_call_waits_once_and_makes_the_thread_go_on() {
        assert!(!is_recording(), "nothing is pending");
        IS_PENDING.store(true, Ordering::Release);
        progress().patience = Duration::from_millis(1);
        assert!(!is_recording());
        assert!(!is_pending(), "later calls do not wait");
        assert!(is_wanted_within(Duration::from_secs(600)));
        progress().patience = Duration::from_secs(600);
        IS_PENDING.store(true, Ordering::Release);
        let waiting = spawn_quiet("waiting", is_recording).unwrap();
        drop(Decided);
        assert!(!waiting.join().unwrap());
        assert!(!is_pending());
    }

    #[test]
    fn a_program_is_recorded_when_it_has_used_enough() {
        let at = |time| Usage { filter: 0, time };
        let start = at(Some(7));
        assert!(!at(Some(7 + ENOUGH - 1)).is_enough(start));
        assert!(at(Some(7 + ENOUGH)).is_enough(start));
        assert!(!at(None).is_enough(start), "the system does not tell it");
        assert!(!at(Some(ENOUGH)).is_enough(at(None)));
    }
}
