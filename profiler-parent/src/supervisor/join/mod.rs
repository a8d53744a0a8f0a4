//! Lets processes join the session by themselves: the session's address, and the thread behind it.
//!
//! Started by [`super::Supervisor`] when the address is first needed. A process that has joined is
//! from then on like any untrusted child: the same pool, limit, channel and exit watcher. Linux
//! only; elsewhere the session has no address.
//!
//! ```text
//! process ── connects, asks ──▶ join thread ──▶ supervisor: an allowance
//!                                   │ ◀──────────────────────┘
//!         ◀── pool ─────────────────┤──▶ exit watcher (pidfd)
//!                                   └──▶ receive thread (the same socket)
//! ```
//!
//! A process that may end at once connects and announces itself first, and asks on the same
//! connection some milliseconds later. The thread lists it at once, and notes how long it ran if it
//! leaves before it asks.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod admission;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod elsewhere;
mod limits;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod pending;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod pool_look;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod thread;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "service.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

use ipc_protocol::environment::EnvironmentError;
use ipc_protocol::transport::TransportError;

pub(super) use imp::JoinService;
pub(super) use limits::Limits;

/// Why a session has no address at which processes can join it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionAddressError {
    /// Processes cannot join a session on this system.
    #[error("processes can join a session by themselves only on Linux")]
    Unsupported,
    /// The socket cannot be made.
    #[error("cannot make the session's address: {0}")]
    Channel(#[from] TransportError),
    /// The system refused random bytes.
    #[error(transparent)]
    Token(#[from] EnvironmentError),
    /// The system refused a thread or a descriptor.
    #[error("cannot let processes join: {0}")]
    System(#[from] std::io::Error),
}
