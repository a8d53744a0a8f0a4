//! The listener for deadlocks.
//!
//! The poller reads new deadlocks; the dispatcher calls the listener. Invariants: a deadlock is
//! passed to the listener at most once, even if it was found before the listener was set; a
//! listener that panics, when it is called or when it is dropped, is removed and affects nothing
//! else; no lock is held while it is called, so it may replace itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::process_table::{Deadlock, ProcessTable};

type Callback = Box<dyn FnMut(&Deadlock) + Send>;

#[derive(Default)]
struct Listening {
    callback: Option<Callback>,
    /// Counts the listeners that were set.
    number: u64,
}

/// The listener, if there is one.
#[derive(Default)]
pub(super) struct DeadlockListener(Mutex<Listening>);

impl std::fmt::Debug for DeadlockListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlockListener").finish_non_exhaustive()
    }
}

impl DeadlockListener {
    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the listener.
    pub(super) fn set(&self, callback: Callback) {
        let mut listening = self.lock();
        listening.number += 1;
        let before = listening.callback.replace(callback);
        drop(listening);
        dispose(before);
    }

    /// Returns the deadlocks from index `next` on, and sets `next` to the index after the last one.
    /// Returns none before the first listener is set.
    pub(super) fn new_deadlocks(
        &self,
        processes: &ProcessTable,
        next: &mut usize,
    ) -> Vec<Deadlock> {
        if self.lock().number == 0 {
            return Vec::new();
        }
        let found = processes.deadlocks_from(*next);
        *next += found.len();
        found
    }

    /// Calls the listener. Returns false if it has panicked.
    pub(super) fn tell(&self, deadlocks: &[Deadlock]) -> bool {
        let mut listening = self.lock();
        let number = listening.number;
        let Some(mut callback) = listening.callback.take() else {
            return true;
        };
        drop(listening);
        let call = || deadlocks.iter().for_each(&mut callback);
        let ended_well = catch_unwind(AssertUnwindSafe(call)).is_ok();
        let mut listening = self.lock();
        if ended_well && listening.number == number {
            listening.callback = Some(callback);
        } else {
            drop(listening);
            dispose(Some(callback));
        }
        ended_well
    }
}

impl Drop for DeadlockListener {
    fn drop(&mut self) {
        let listening = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        dispose(listening.callback.take());
    }
}

/// Drops a callback. Its captures belong to the host: their drop may panic.
fn dispose(callback: Option<Callback>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(callback)));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    fn deadlock() -> Vec<Deadlock> {
        vec![Deadlock { waits: Vec::new() }]
    }

    #[test]
    fn a_listener_may_replace_itself() {
        let listener = Arc::new(DeadlockListener::default());
        let own = Arc::clone(&listener);
        let (sender, reported) = channel();
        listener.set(Box::new(move |_| {
            let sender = sender.clone();
            own.set(Box::new(move |_| sender.send(()).unwrap()));
        }));
        assert!(listener.tell(&deadlock()));
        assert!(reported.try_recv().is_err());
        assert!(listener.tell(&deadlock()));
        assert!(reported.try_recv().is_ok(), "the new one");
    }

    #[test]
    fn a_listener_that_panics_is_removed() {
        let listener = DeadlockListener::default();
        listener.set(Box::new(|_| panic!("panic of the test")));
        assert!(!listener.tell(&deadlock()));
        assert!(listener.tell(&deadlock()), "there is none");
    }
}
