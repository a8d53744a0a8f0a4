//! The sockets by which processes join a session. Used by [`crate::transport::joining`]. `linux`
//! implements them, `portable` reports that they are not supported.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

use std::time::{Duration, Instant};

use profiler_core::ids::{ProcessId, UserId};

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
pub(crate) use imp::open_process;
pub(crate) use imp::{Asker, SessionSocket, own_user, peer_of};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use profiler_core::internal::sys::open_process;

/// What the kernel says about the process at the other end of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The process; `None` if this process cannot see it.
    pub(crate) pid: Option<ProcessId>,
    /// Its user.
    pub(crate) user: UserId,
}

/// The longest wait; the system refuses some longer ones.
const LONGEST: Duration = Duration::from_secs(3600);
/// A bounded wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    begin: Instant,
    patience: Duration,
}

impl Deadline {
    /// Begins to wait for at most `patience`, and at most an hour.
    pub(crate) fn after(patience: Duration) -> Self {
        #[allow(clippy::disallowed_methods)] // compared with itself only
        let begin = Instant::now();
        Self {
            begin,
            patience: patience.min(LONGEST),
        }
    }

    /// The time that is left; `None` if it is over.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn left(&self) -> Option<Duration> {
        self.patience
            .checked_sub(self.begin.elapsed())
            .filter(|left| !left.is_zero())
    }
}
