//! Makes `tracing` ask again, when recording begins or ends, which call sites are of interest.
//!
//! `tracing` caches the answer for each call site. While nothing is recorded, the profiler answers
//! that nothing is of interest to it, so call sites that nobody wants cost one load. The core calls
//! [`rebuild`] after each start and stop, on a thread of its own (`session::on_switch`).
//!
//! If a program has a single subscriber, `tracing` asks the default subscriber of the thread that
//! rebuilds the cache. That is none if the program's subscriber is the default of other threads
//! only, and the answer would then turn off the program's own subscriber. So the profiler's
//! subscriber is the default during the rebuild.
//!
//! Invariant: no thread of the host waits for the lock here; a forked child may find it locked
//! permanently.

use std::sync::{Mutex, MutexGuard, TryLockError};

use profiler_core::session;
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::dispatcher::{Dispatch, WeakDispatch, with_default};

/// The dispatchers of subscribers that contain the profiler's.
static DISPATCHES: Mutex<Vec<WeakDispatch>> = Mutex::new(Vec::new());

/// Called once for each subscriber, when it becomes part of a dispatcher.
pub(crate) fn note(dispatch: &Dispatch) {
    session::on_switch(rebuild);
    if let Some(mut noted) = try_lock() {
        noted.retain(|noted| noted.upgrade().is_some());
        noted.push(dispatch.downgrade());
    }
}

/// Asks again for all call sites.
fn rebuild() {
    let noted = try_lock().map(|noted| noted.clone()).unwrap_or_default();
    match noted.iter().rev().find_map(WeakDispatch::upgrade) {
        Some(dispatch) => with_default(&dispatch, rebuild_interest_cache),
        None => rebuild_interest_cache(),
    }
}

fn try_lock() -> Option<MutexGuard<'static, Vec<WeakDispatch>>> {
    match DISPATCHES.try_lock() {
        Ok(noted) => Some(noted),
        Err(TryLockError::Poisoned(noted)) => Some(noted.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
