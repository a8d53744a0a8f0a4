//! The list of the profiler's own threads in this process.
//!
//! A thread of [`super::spawn_quiet`] or [`super::run_quiet`] is in the list while it runs. The
//! sampler subtracts the processor time of these threads from that of the process. If the list is
//! full, further threads are left out. After a fork, the child's list contains threads of its
//! parent until the child begins anew. The system reports no clock for their numbers in the child.

use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of threads in the list.
const MAX: usize = 64;

/// The numbers of the threads; 0 in a free place.
static ALL: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];

/// The place of a thread in the list. The place becomes free when this is dropped.
#[derive(Debug)]
pub(super) struct OwnThread(Option<&'static AtomicU64>);

impl OwnThread {
    /// Adds the calling thread to the list.
    pub(super) fn enter() -> Self {
        let own = super::current_thread_number();
        Self(ALL.iter().find(|place| {
            place
                .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        }))
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Relaxed);
        }
    }
}

/// In a forked child that begins anew: removes the threads of the parent.
pub(crate) fn forget_parent() {
    ALL.iter()
        .for_each(|place| place.store(0, Ordering::Relaxed));
}

/// The system's numbers of the threads that are in the list now.
pub fn own_thread_numbers() -> impl Iterator<Item = u64> {
    ALL.iter()
        .map(|place| place.load(Ordering::Relaxed))
        .filter(|number| *number != 0)
}

/// The number of the profiler's threads that run now. Reads atomics only. In a forked child
/// that has not begun anew, the number of its parent.
pub fn own_thread_count() -> usize {
    let listed = ALL.iter();
    listed
        .filter(|place| place.load(Ordering::Relaxed) != 0)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_entered_while_it_runs() {
        let inside = || {
            let own = crate::current_thread_number();
            (own, own_thread_numbers().any(|thread| thread == own))
        };
        let (thread, is_entered) = crate::spawn_quiet("entered", inside)
            .unwrap()
            .join()
            .unwrap();
        assert!(is_entered);
        assert!(own_thread_numbers().all(|other| other != thread));
    }
}
