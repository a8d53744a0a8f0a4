//! The clocks for pauses and for costs. Used by `ends`, `read_pause` and `resolver`.

use std::time::{Duration, Instant};

/// The present instant.
pub(crate) fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}

/// The processor time of the calling thread.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
