//! Hears what the children say: hello first, then messages, until the channel ends.
//!
//! Started with the hub, told of a child by spawning. On Linux one thread waits for all children
//! (`receive`), so that a child costs the parent no thread; elsewhere each child has one
//! (`one_thread_each`), because only Linux has sockets that can be waited for together. Invariants: at most
//! [`IN_FLIGHT`] messages of a child wait for the hub, so one that floods fills its own socket and
//! not the hub's queue, makes the parent hold at most so many frames, and is heard no more often
//! than the others; a channel is told to be closed exactly once.

mod places;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "receive.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "one_thread_each.rs"]
mod imp;

use ipc_protocol::environment::Token;
use ipc_protocol::transport::listener::Listener;
use profiler_core::ids::{PoolId, ProcessId};

pub(super) use imp::Listening;
pub(crate) use places::InFlight;

/// Messages of one child that may wait for the hub: one of each kind that can be outstanding.
const IN_FLIGHT: u32 = 4;

/// A child that has been started and has not said hello.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) key: PoolId,
    /// The process it runs as.
    pub(super) pid: ProcessId,
    pub(super) listener: Listener,
    /// What it must know.
    pub(super) token: Token,
}
