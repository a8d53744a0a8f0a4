//! Folding the chunk manager's updates until the parent asks for them.
//!
//! The manager's listener folds on threads of the profiler; the control thread receives the
//! requests. Invariant: at most one request waits. It is answered at once if there is an update,
//! else with the next update.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipc_protocol::message::ToParent;
use profiler_core::internal::manager::update::ManagerUpdate;

use crate::outgoing::Outgoing;

/// The update that has not been sent, and whether the parent waits for one.
#[derive(Debug, Default)]
struct Pending {
    update: ManagerUpdate,
    asked: bool,
}

/// The updates between the chunk manager and the parent.
#[derive(Clone, Debug)]
pub(crate) struct Updates {
    pending: Arc<Mutex<Pending>>,
    outgoing: Outgoing,
}

impl Updates {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            pending: Arc::default(),
            outgoing,
        }
    }

    /// A listener for a new session. Discards the update of the previous session.
    pub(crate) fn listener(&self) -> profiler_core::internal::manager::Listener {
        self.lock().update = ManagerUpdate::None;
        let updates = self.clone();
        Box::new(move |update| updates.fold(update))
    }

    fn fold(&self, update: ManagerUpdate) {
        let mut pending = self.lock();
        pending.update.fold(update);
        self.answer(&mut pending);
    }

    /// Handles the parent's request for an update. A second request while one waits has no effect.
    pub(crate) fn ask(&self) {
        let mut pending = self.lock();
        pending.asked = true;
        self.answer(&mut pending);
    }

    /// Sends under the lock, so that updates are sent in the order in which they were folded. The
    /// channel holds at most one unread update per request, so sending does not wait.
    fn answer(&self, pending: &mut Pending) {
        if pending.asked && pending.update.is_some() {
            pending.asked = false;
            self.outgoing
                .send(&ToParent::ChunkManagerUpdate(pending.update.take()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
