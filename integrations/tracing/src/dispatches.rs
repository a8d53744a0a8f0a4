//! Makes `tracing` ask again, when recording begins or ends, which call sites are of interest.
//!
//! `tracing` caches the answer for each call site. While nothing is recorded, the profiler answers
//! that nothing is of interest to it, so call sites that are not wanted cost one load. The core
//! calls [`rebuild`] after each start and stop, on a thread of its own (`session::on_switch`).
//!
//! If a program has a single subscriber, `tracing` asks the default subscriber of the thread that
//! rebuilds the cache. That is none if the program's subscriber is the default of other threads
//! only, and the answer would then turn off the program's own subscriber. So a subscriber that
//! contains the profiler's is the default during the rebuild. Without one there is no rebuild: the
//! answers of the profiler's subscriber have no effect.
//!
//! `tracing-core` does not tell a subscriber in a `Box` or an `Arc` that it becomes part of a
//! dispatcher. Such a subscriber is found if it is the default of all threads.
//!
//! Invariants: no thread of the host waits for a lock here; a forked child may find locks held
//! forever, and loses their places only. The rebuild keeps a subscriber alive while it lasts, so
//! the last drop of a subscriber may be on the profiler's thread.

use std::any::TypeId;
use std::sync::{Mutex, MutexGuard, TryLockError};

use profiler_core::session;
use tracing_core::callsite::rebuild_interest_cache;
use tracing_core::dispatcher::{Dispatch, WeakDispatch, get_default, with_default};

/// Most dispatchers that are known at a time. Further ones are asked as long as one of these lives.
const MAX: usize = 32;

/// A dispatcher of a subscriber that contains the profiler's.
type Place = Mutex<Option<WeakDispatch>>;

static DISPATCHES: [Place; MAX] = [const { Mutex::new(None) }; MAX];

/// What a subscriber or a layer of the profiler's answers to a downcast to this type.
#[derive(Debug)]
pub(crate) struct ContainsProfiler;

impl ContainsProfiler {
    /// The answer to a downcast to this type.
    pub(crate) fn downcast(id: TypeId) -> Option<*const ()> {
        static ANSWER: ContainsProfiler = ContainsProfiler;
        (id == TypeId::of::<Self>()).then(|| std::ptr::from_ref(&ANSWER).cast())
    }
}

/// Called once for each subscriber, when it is made.
pub(crate) fn ask_again_at_switches() {
    session::on_switch(rebuild);
}

/// Called once for each subscriber, when it becomes part of a dispatcher.
pub(crate) fn note(dispatch: &Dispatch) {
    let mut places = DISPATCHES.iter().filter_map(try_lock);
    // `tracing` holds a lock here. A subscriber whose last reference is dropped here may need it,
    // so a place is looked at only if none is empty.
    let free = places.find(|place| place.is_none());
    let mut places = DISPATCHES.iter().filter_map(try_lock);
    let free = free.or_else(|| places.find(|place| upgrade(place).is_none()));
    if let Some(mut place) = free {
        *place = Some(dispatch.downgrade());
    }
}

/// Asks again for all call sites.
fn rebuild() {
    let known = DISPATCHES
        .iter()
        .find_map(|place| upgrade(&*try_lock(place)?));
    if let Some(dispatch) = known {
        with_default(&dispatch, rebuild_interest_cache);
    } else if get_default(|default| default.is::<ContainsProfiler>()) {
        rebuild_interest_cache();
    }
}

fn upgrade(place: &Option<WeakDispatch>) -> Option<Dispatch> {
    place.as_ref().and_then(WeakDispatch::upgrade)
}

fn try_lock(place: &Place) -> Option<MutexGuard<'_, Option<WeakDispatch>>> {
    match place.try_lock() {
        Ok(place) => Some(place),
        Err(TryLockError::Poisoned(place)) => Some(place.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
