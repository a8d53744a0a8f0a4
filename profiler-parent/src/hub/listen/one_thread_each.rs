//! Every other system than Linux: a thread per child, which waits in the channel.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crossbeam_channel::Sender;
use ipc_protocol::message::ToParent;
use ipc_protocol::transport::TransportError;
use profiler_core::sys::spawn_quiet;

use super::Expected;
use super::places::Places;
use crate::hub::HubEvent;

/// Hears all children of a session.
#[derive(Debug)]
pub(crate) struct Listening {
    events: Sender<HubEvent>,
}

impl Listening {
    /// Nobody is expected yet.
    pub(crate) fn start(events: Sender<HubEvent>) -> io::Result<Self> {
        Ok(Self { events })
    }

    /// Hears a child from now on.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn expect(&self, child: Expected) -> io::Result<()> {
        let (events, abandon, key) = (self.events.clone(), child.listener.abandon_handle(), child.key);
        let thread = spawn_quiet("profiler-child", move || {
            let error = hear_out(&events, child);
            let _ = events.send(HubEvent::Closed { key, error });
        });
        if thread.is_err() {
            abandon.abandon();
        }
        thread.map(|_| ())
    }

    /// Does nothing: each thread ends with its channel.
    pub(crate) fn stop(&self) {}
}

fn hear_out(events: &Sender<HubEvent>, child: Expected) -> TransportError {
    let Expected { key, pid, listener, token } = child;
    let accepted = match listener.accept(&token, pid) {
        Ok(accepted) => accepted,
        Err(error) => return error,
    };
    let mut receiver = accepted.ends.receiver;
    let _ = events.send(HubEvent::Connected { key, hello: accepted.hello, sender: accepted.ends.sender });
    let freed = Arc::new((Mutex::new(()), Condvar::new()));
    let theirs = Arc::clone(&freed);
    let places = Places::new(move || {
        drop(theirs.0.lock().unwrap_or_else(PoisonError::into_inner));
        theirs.1.notify_all();
    });
    loop {
        let message = match receiver.recv() {
            Ok(ToParent::Hello(_)) => return TransportError::PeerMisbehaved("a second Hello"),
            Ok(message) => message,
            Err(error) => return error,
        };
        let guard = freed.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(freed.1.wait_while(guard, |()| places.are_taken()));
        let _ = events.send(HubEvent::Message { key, message, in_flight: places.take() });
    }
}
