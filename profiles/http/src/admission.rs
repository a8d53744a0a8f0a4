//! Admission of connections: how long each may last, and which are closed for others.
//!
//! Used by [`super::server`]. A connection that has not yet sent a request with the token may last
//! [`HEAD_TIME`]; see [`super::connections`] for the other rules. Invariant: a request with the
//! token that has arrived is answered, even if its connection was about to be closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout;

use super::connections::{ConnectionId, Connections, Entered, Limits, now};

const LIMITS: Limits = Limits {
    waiting: 64,
    served: 64,
    grace: Duration::from_millis(250),
};
/// How long a connection may last before a request with the token.
const HEAD_TIME: Duration = Duration::from_secs(2);

/// The signal that ends a connection.
#[derive(Debug, Default)]
struct Ending {
    /// Wakes the connection, which then checks its state again.
    told: Notify,
    is_due: AtomicBool,
}

impl Ending {
    fn set(&self, is_due: bool) {
        self.is_due.store(is_due, Ordering::Release);
        self.told.notify_one(); // stored if the connection does not listen yet
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Admission {
    connections: Mutex<Connections<Arc<Ending>>>,
    /// Wakes a new connection that waits for a place when another one has left.
    left: Notify,
}

/// An accepted connection. It leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    admission: Arc<Admission>,
    id: ConnectionId,
    ending: Arc<Ending>,
    since: Instant,
}

impl Admission {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            connections: Mutex::new(Connections::new(LIMITS)),
            left: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections<Arc<Ending>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a connection. If young connections take all places, waits until one of them may be
    /// closed or leaves.
    pub(super) async fn enter(self: &Arc<Self>) -> Admitted {
        let ending = Arc::<Ending>::default();
        loop {
            let since = now();
            let entered = self.lock().enter(Arc::clone(&ending), since);
            match entered {
                Entered::In(id, closed) => {
                    closed.iter().for_each(|other| other.set(true));
                    return Admitted {
                        admission: Arc::clone(self),
                        id,
                        ending,
                        since,
                    };
                }
                Entered::Later(time, _) => drop(timeout(time, self.left.notified()).await),
            }
        }
    }
}

impl Admitted {
    /// Notes that a request with the token has arrived.
    pub(super) fn show_token(&self) {
        let closed = self
            .admission
            .lock()
            .show_token(self.id, Arc::clone(&self.ending), now());
        self.ending.set(false);
        self.admission.left.notify_one();
        closed.iter().for_each(|other| other.set(true));
    }

    /// Returns when the connection must end.
    pub(super) async fn ended(&self) {
        while !self.is_over() {
            self.wait().await;
            // Lets the connection first read the bytes that have arrived meanwhile.
            tokio::task::yield_now().await;
        }
    }

    async fn wait(&self) {
        let told = self.ending.told.notified();
        if self.is_waiting() {
            let _ = timeout(HEAD_TIME.saturating_sub(self.since.elapsed()), told).await;
        } else {
            told.await;
        }
    }

    fn is_over(&self) -> bool {
        let is_late = || self.since.elapsed() >= HEAD_TIME && self.is_waiting();
        self.ending.is_due.load(Ordering::Acquire) || is_late()
    }

    fn is_waiting(&self) -> bool {
        self.admission.lock().is_waiting(self.id)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.lock().leave(self.id);
        self.admission.left.notify_one();
    }
}
