//! The list of all recorders, with which a stop takes the chunks of all threads.
//!
//! A thread adds its recorder when it makes it, and removes it when the thread ends or leaves.
//! Read by the end of a session and by `reclaim`. Invariant: a thread that makes its recorder never
//! blocks here: it gives up if the lock stays taken.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use super::backoff::spin_then_yield;
use super::recorder::Recorder;
use crate::manager::ChunkManager;
use crate::sys;
use profiler_sys::Renewable;

static RECORDERS: Renewable<Mutex<Vec<Arc<Recorder>>>> = Renewable::new(Mutex::new(Vec::new()));

/// Adds the recorder of the calling thread; `None` if another thread holds the list.
pub(super) fn add(recorder: &Arc<Recorder>) -> Option<()> {
    let mut all = spin_then_yield(|| match RECORDERS.try_lock() {
        Ok(all) => Some(all),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })?;
    all.push(Arc::clone(recorder));
    Some(())
}

/// Removes a recorder.
pub(super) fn remove(recorder: &Arc<Recorder>) {
    let mut all = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|listed| !Arc::ptr_eq(listed, recorder));
}

/// In a forked child that begins anew: forgets the recorders of the parent. Does not drop them,
/// because they refer to a pool that is not mapped here.
pub(super) fn forget_parent() {
    RECORDERS.renew(Mutex::new(Vec::new()));
}

/// The recorders of all threads that have one. Allocates only while the list is not locked: the
/// program's allocator may remove the calling thread's recorder.
pub(super) fn recorders() -> Vec<Arc<Recorder>> {
    let mut all = Vec::new();
    loop {
        let listed = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        let count = listed.len();
        if count <= all.capacity() {
            all.extend(listed.iter().cloned());
            return all;
        }
        drop(listed);
        all.reserve(count);
    }
}

/// Takes the chunks away from all threads that are not recording right now.
///
/// Called after the gate was closed. Returns the number of threads that kept theirs because they
/// are within an entry.
pub(crate) fn seize_all(manager: &ChunkManager) -> usize {
    let all = recorders();
    all.iter().for_each(|recorder| recorder.disarm());
    if !sys::barrier_on_all_threads() {
        return all.len();
    }
    let _state = manager.lock();
    all.iter()
        .filter(|recorder| !recorder.seize(manager))
        .count()
}
