//! The listener for deadlocks.
//!
//! The poller asks for deadlocks that were not told yet; the dispatcher calls the listener.
//! Invariants: each deadlock is told once, also one that was found before the listener was set; a
//! listener that panics is removed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::process_table::{Deadlock, ProcessTable};

type Callback = Box<dyn FnMut(&Deadlock) + Send>;

/// The listener, if there is one.
#[derive(Default)]
pub(super) struct DeadlockListener(Mutex<Option<Callback>>);

impl std::fmt::Debug for DeadlockListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlockListener").finish_non_exhaustive()
    }
}

impl DeadlockListener {
    /// Replaces the listener.
    pub(super) fn set(&self, callback: Callback) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = listener.replace(callback);
        drop(listener);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(before)));
    }

    /// The deadlocks from number `told` on, which becomes that of the next one. None while there is
    /// no listener.
    pub(super) fn untold(&self, processes: &ProcessTable, told: &mut usize) -> Vec<Deadlock> {
        let has_listener = self
            .0
            .try_lock()
            .map_or(true, |listener| listener.is_some());
        if !has_listener {
            return Vec::new();
        }
        let found = processes.deadlocks_from(*told);
        *told += found.len();
        found
    }

    /// Calls the listener.
    pub(super) fn tell(&self, deadlocks: &[Deadlock]) {
        let mut listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(callback) = listener.as_mut() else {
            return;
        };
        let call = || deadlocks.iter().for_each(callback);
        if catch_unwind(AssertUnwindSafe(call)).is_err() {
            *listener = None;
        }
    }
}
