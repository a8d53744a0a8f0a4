//! Receives the messages of the children: `Hello` first, then others, until the channel closes.
//!
//! `Supervisor` starts it; spawning adds each child. On Linux one thread receives from all children
//! (`receive`), so a child costs the parent no thread. On other systems each child has a thread
//! (`thread_per_child`), because ipc-channel does not expose its sockets there. Invariants: at most
//! [`IN_FLIGHT`] messages of each child wait for the supervisor. The messages of a child that sends
//! faster stay in its socket buffer, and the other children are not delayed. The supervisor
//! receives one `Closed` event per channel, or none if the session ends first.

mod slots;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "receive.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "thread_per_child.rs"]
mod imp;

use ipc_protocol::environment::Token;
use ipc_protocol::transport::listener::Listener;
use profiler_core::ids::{PoolId, ProcessId};

pub(super) use imp::ChildReceivers;
pub(crate) use slots::InFlight;

/// Messages of one child that may wait for the supervisor: one of each kind that can be
/// outstanding.
const IN_FLIGHT: u32 = 4;

/// A started child that has not sent `Hello`.
#[derive(Debug)]
pub(super) struct PendingChild {
    pub(super) key: PoolId,
    /// The process it runs as.
    pub(super) pid: ProcessId,
    pub(super) listener: Listener,
    /// The token that its `Hello` must contain.
    pub(super) token: Token,
}
