//! The channel to the parent, shared by the threads of the profiler.
//!
//! Created by the control thread; used by all threads that send to the parent. Invariant: messages
//! do not mix, because a message is sent under a lock.

use std::sync::{Arc, Mutex, PoisonError};

use ipc_protocol::message::ToParent;
use ipc_protocol::transport::Sender;

/// Sends to the parent, from any thread of the profiler.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing(Arc<Mutex<Sender<ToParent>>>);

impl Outgoing {
    pub(crate) fn new(sender: Sender<ToParent>) -> Self {
        Self(Arc::new(Mutex::new(sender)))
    }

    /// Sends a message. It is lost if the parent is gone.
    pub(crate) fn send(&self, message: &ToParent) {
        let _ = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(message);
    }

    /// Ends the channel, and the control thread's wait.
    pub(crate) fn hang_up(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .hang_up();
    }
}
