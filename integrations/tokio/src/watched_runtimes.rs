//! The runtimes that are watched, and the thread that reads them while a session runs.
//!
//! The thread is outside of the runtimes, so a runtime that is stuck is shown, too. It exists while
//! a session runs and a runtime is watched. Invariants: a place is locked for the time of one
//! reading, some microseconds, by the thread, and when a runtime is added or removed; a forked
//! child starts a thread of its own, never waits for a place that its parent may have locked, and does
//! not read the runtimes of its parent.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use profiler_core::counter::Counter;
use profiler_core::session;

use crate::runtime_reader::RuntimeReader;
use crate::session_number::session_number;
use crate::task_rules::is_recording;

/// Most runtimes that are watched at the same time.
const MAX: usize = 32;
/// The time between two readings.
const INTERVAL: Duration = Duration::from_millis(20);

static PLACES: [Mutex<Option<RuntimeReader>>; MAX] = [const { Mutex::new(None) }; MAX];
/// The places in use.
static WATCHED: AtomicUsize = AtomicUsize::new(0);
/// The process whose thread exists; 0 for none. A forked child has the number of its parent.
static READING: AtomicU32 = AtomicU32::new(0);
static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);
/// Runtimes for which there was no place.
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);
static LEFT_OUT_COUNTER: Counter = Counter::new(
    "tokio: runtimes without counters",
    "tokio",
    "Runtimes that are not watched because too many are",
);

/// A watched runtime has this place until this is dropped.
#[derive(Debug)]
pub(crate) struct WatchedPlace {
    /// `None` if there was no place.
    index: Option<usize>,
    /// The process that watches the runtime.
    process: u32,
}

/// Watches a runtime from now on; counts it if there is no place.
pub(crate) fn add(reader: Option<RuntimeReader>) -> WatchedPlace {
    let index = reader.and_then(put);
    match index {
        Some(_) => WATCHED.fetch_add(1, Ordering::SeqCst),
        None => LEFT_OUT.fetch_add(1, Ordering::SeqCst),
    };
    if !IS_FOLLOWED.swap(true, Ordering::Relaxed) {
        let _ = session::on_switch(read_while_recording);
    }
    read_while_recording();
    WatchedPlace {
        index,
        process: std::process::id(),
    }
}

fn put(reader: RuntimeReader) -> Option<usize> {
    let mut reader = Some(reader);
    let put_into = |place: &Mutex<Option<RuntimeReader>>| {
        let Ok(mut place) = place.try_lock() else {
            return false;
        };
        let own = std::process::id();
        if place.as_ref().is_none_or(|known| known.process != own) {
            // The runtime of the process that forked this one has no threads here, and is not
            // dropped.
            std::mem::forget(std::mem::replace(&mut *place, reader.take()));
        }
        reader.is_none()
    };
    PLACES.iter().position(put_into)
}

impl Drop for WatchedPlace {
    fn drop(&mut self) {
        let place = self.index.and_then(|index| PLACES.get(index));
        let is_own = self.process == std::process::id();
        let Some(place) = place.filter(|_| is_own) else {
            return;
        };
        let reader = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        WATCHED.fetch_sub(1, Ordering::SeqCst);
        // Dropped without the lock: it may be the last handle of the runtime.
        drop(reader);
    }
}

/// Starts the thread if there is something to read and none exists.
fn read_while_recording() {
    if is_wanted() && take_over() && !starts_thread() {
        // No thread is left. The next start or runtime tries again.
        READING.store(0, Ordering::SeqCst);
    }
}

#[cfg(unix)]
fn starts_thread() -> bool {
    profiler_sys::spawn_quiet("profiler-tokio", read_all_the_time).is_ok()
}

/// False: no session runs on this system.
#[cfg(not(unix))]
fn starts_thread() -> bool {
    let _ = read_all_the_time;
    false
}

fn is_wanted() -> bool {
    is_recording() && WATCHED.load(Ordering::SeqCst) > 0
}

/// Whether no thread of this process has read until now.
fn take_over() -> bool {
    let own = std::process::id();
    READING.swap(own, Ordering::SeqCst) != own
}

fn read_all_the_time() {
    loop {
        while is_wanted() {
            read_all();
            std::thread::sleep(INTERVAL);
        }
        READING.store(0, Ordering::SeqCst);
        // The next look at the session is an ordinary load.
        fence(Ordering::SeqCst);
        // A start or a runtime in between has seen the thread and has started none.
        if !is_wanted() || !take_over() {
            return;
        }
    }
}

fn read_all() {
    let session = session_number();
    for place in &PLACES {
        if let Ok(mut place) = place.try_lock()
            && let Some(reader) = place.as_mut()
            && reader.process == std::process::id()
        {
            reader.read(session);
        }
    }
    let left_out = LEFT_OUT.load(Ordering::Relaxed);
    if left_out > 0 {
        LEFT_OUT_COUNTER.set(i64::try_from(left_out).unwrap_or(i64::MAX));
    }
}
