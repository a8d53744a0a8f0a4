//! The bounded queue between the reader thread and one observer.
//!
//! Invariants: it never holds more bytes than its limit, except that an empty queue accepts one
//! batch of any size; the reader thread never waits for room; dropping the observer frees the
//! content.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::Batch;

/// The reason why there is no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoBatch {
    /// Nothing happened within the given time.
    #[error("nothing happened within the given time")]
    Timeout,
    /// The session is over, and all batches were taken.
    #[error("the session is over")]
    SessionOver,
}

/// The queued batches.
#[derive(Debug)]
pub(super) struct BatchQueue {
    limit: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    queue: VecDeque<(Batch, usize)>,
    bytes: usize,
    is_closed: bool,
}

impl BatchQueue {
    /// Creates a queue with a limit of `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            state: Mutex::new(QueueState::default()),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch of `bytes` bytes. Returns whether there was room.
    pub(super) fn put(&self, batch: Batch, bytes: usize) -> bool {
        let mut state = self.lock();
        if !state.queue.is_empty() && state.bytes.saturating_add(bytes) > self.limit {
            return false;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.queue.push_back((batch, bytes));
        self.changed.notify_one();
        true
    }

    /// Takes the oldest batch, waiting for at most `patience`.
    pub(super) fn take(&self, patience: Duration) -> Result<Batch, NoBatch> {
        let nothing = |state: &mut QueueState| state.queue.is_empty() && !state.is_closed;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), patience, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.queue.pop_front() {
            Some((batch, bytes)) => {
                state.bytes = state.bytes.saturating_sub(bytes);
                Ok(batch)
            }
            None if state.is_closed => Err(NoBatch::SessionOver),
            None => Err(NoBatch::Timeout),
        }
    }

    /// Marks the end: no further batch follows.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
