//! The system's time, for pauses and timeouts.

use std::time::{Duration, Instant};

/// The end of a time that begins now. A year stands for longer ones, which an [`Instant`] may not
/// be able to hold.
pub(crate) fn end_of(timeout: Duration) -> Instant {
    now() + timeout.min(Duration::from_secs(365 * 24 * 3600))
}

/// The present time. Pauses and the timeouts of sockets are in the system's time, for every clock
/// of a session.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
