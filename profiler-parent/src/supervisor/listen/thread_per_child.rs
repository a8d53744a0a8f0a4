//! Systems other than Linux: a thread per child, which blocks in the channel.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crossbeam_channel::Sender;
use ipc_protocol::message::ToParent;
use ipc_protocol::transport::TransportError;
use profiler_sys::spawn_quiet;

use super::PendingChild;
use super::slots::MessageSlots;
use crate::supervisor::SupervisorEvent;

/// Receives the messages of all children of a session.
#[derive(Debug)]
pub(crate) struct ChildReceivers {
    events: Sender<SupervisorEvent>,
}

impl ChildReceivers {
    /// Creates a receiver without children.
    pub(crate) fn start(events: Sender<SupervisorEvent>) -> io::Result<Self> {
        Ok(Self { events })
    }

    /// Starts to receive from a child.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn add_child(&self, child: PendingChild) -> io::Result<()> {
        let events = self.events.clone();
        let abandon = child.listener.cancel_handle();
        let key = child.key;
        let thread = spawn_quiet("profiler-child", move || {
            let error = receive_until_closed(&events, child);
            let _ = events.send(SupervisorEvent::Closed { key, error });
        });
        if thread.is_err() {
            abandon.abandon();
        }
        thread.map(|_| ())
    }

    /// Does nothing. Each thread ends when its channel closes.
    pub(crate) fn stop(&self) {}
}

fn receive_until_closed(events: &Sender<SupervisorEvent>, child: PendingChild) -> TransportError {
    let PendingChild {
        key,
        pid,
        listener,
        token,
    } = child;
    let accepted = match listener.accept(&token, pid) {
        Ok(accepted) => accepted,
        Err(error) => return error,
    };
    let mut receiver = accepted.ends.receiver;
    let _ = events.send(SupervisorEvent::Connected {
        key,
        hello: accepted.hello,
        sender: accepted.ends.sender,
    });
    let available = Arc::new((Mutex::new(()), Condvar::new()));
    let notifier = Arc::clone(&available);
    let slots = MessageSlots::new(move || {
        drop(notifier.0.lock().unwrap_or_else(PoisonError::into_inner));
        notifier.1.notify_all();
    });
    loop {
        let message = match receiver.recv() {
            Ok(ToParent::Hello(_)) => return TransportError::PeerMisbehaved("a second Hello"),
            Ok(message) => message,
            Err(error) => return error,
        };
        let guard = available.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(available.1.wait_while(guard, |()| slots.is_full()));
        let _ = events.send(SupervisorEvent::Message {
            key,
            message,
            in_flight: slots.acquire(),
        });
    }
}
