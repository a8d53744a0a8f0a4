//! The receive thread of one child: hello first, then messages, until the channel ends.
//!
//! Started by spawning, one per child. Invariants: at most [`IN_FLIGHT`] messages of a child wait
//! for the hub, so one that floods fills its own socket and not the hub's queue, makes the parent
//! hold at most so many frames, and is heard no more often than the others; the thread ends with
//! the channel, which the hub hangs up when the child dies.

use std::io;

use crossbeam_channel::{Receiver, bounded};
use ipc_protocol::environment::Token;
use ipc_protocol::message::ToParent;
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::listener::Listener;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::sys::spawn_quiet;

use super::{HubEvent, HubHandle};

/// Messages of one child that may wait for the hub: one of each kind that can be outstanding.
const IN_FLIGHT: usize = 4;

/// Held while a message waits for the hub; then the child's next one may.
#[derive(Debug)]
pub(crate) struct InFlight(Receiver<()>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let _ = self.0.try_recv(); // the place that was taken for it
    }
}

/// Starts the receive thread of the child that runs as `child`.
pub(super) fn listen(
    hub: &HubHandle,
    key: PoolId,
    child: ProcessId,
    listener: Listener,
    token: Token,
) -> io::Result<()> {
    let (theirs, abandon) = (hub.clone(), listener.abandon_handle());
    let thread = spawn_quiet("profiler-child", move || {
        let error = hear_out(&theirs, key, child, listener, &token);
        theirs.send(HubEvent::Closed { key, error });
    });
    if thread.is_err() {
        abandon.abandon();
    }
    thread.map(|_| ())
}

fn hear_out(
    hub: &HubHandle,
    key: PoolId,
    child: ProcessId,
    listener: Listener,
    token: &Token,
) -> TransportError {
    let accepted = match listener.accept(token, child) {
        Ok(accepted) => accepted,
        Err(error) => return error,
    };
    let mut receiver = accepted.ends.receiver;
    hub.send(HubEvent::Connected { key, hello: accepted.hello, sender: accepted.ends.sender });
    let (places, taken) = bounded(IN_FLIGHT);
    loop {
        let message = match receiver.recv() {
            Ok(ToParent::Hello(_)) => return TransportError::PeerMisbehaved("a second Hello"),
            Ok(message) => message,
            Err(error) => return error,
        };
        let _ = places.send(()); // waits for a place; `taken` is held here, so somebody can free one
        hub.send(HubEvent::Message { key, message, in_flight: InFlight(taken.clone()) });
    }
}
