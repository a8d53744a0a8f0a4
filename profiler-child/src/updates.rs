//! Folding the chunk manager's updates until the parent asks.
//!
//! The manager's listener folds on profiler threads; the control thread answers requests. At most
//! one request waits; the answer goes out at once if something is folded, else when it comes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipc_protocol::message::ToParent;
use profiler_core::manager::update::ManagerUpdate;

use crate::control::Outgoing;

/// What waits to be told, and whether the parent waits to be told.
#[derive(Debug, Default)]
struct Pending {
    update: ManagerUpdate,
    asked: bool,
}

/// Between the chunk manager and the parent.
#[derive(Clone, Debug)]
pub(crate) struct Updates {
    pending: Arc<Mutex<Pending>>,
    outgoing: Outgoing,
}

impl Updates {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self { pending: Arc::default(), outgoing }
    }

    /// A listener for a session that starts; what was folded before is forgotten.
    pub(crate) fn listener(&self) -> profiler_core::manager::Listener {
        self.lock().update = ManagerUpdate::None;
        let updates = self.clone();
        Box::new(move |update| updates.fold(update))
    }

    fn fold(&self, update: ManagerUpdate) {
        let mut pending = self.lock();
        pending.update.fold(update);
        self.answer(&mut pending);
    }

    /// The parent asks. A second request while one waits is the same request.
    pub(crate) fn ask(&self) {
        let mut pending = self.lock();
        pending.asked = true;
        self.answer(&mut pending);
    }

    /// Sends under the lock, so that answers go out in the order in which they were folded. The
    /// channel holds at most one unread update per request, so sending does not wait.
    fn answer(&self, pending: &mut Pending) {
        if pending.asked && pending.update.is_some() {
            pending.asked = false;
            self.outgoing.send(&ToParent::ChunkManagerUpdate(pending.update.take()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
