//! Waiting for something to become true, and measuring how long something takes.

use std::time::Duration;

/// Longer than anything here takes; only a failing test waits so long.
pub const LONG: Duration = Duration::from_secs(20);

/// Measures elapsed time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts it.
    #[allow(clippy::disallowed_methods)] // a test's own clock must not be the one under test
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits until `is_true`, and says whether it came true within [`LONG`].
pub fn until(mut is_true: impl FnMut() -> bool) -> bool {
    let watch = Stopwatch::start();
    while !is_true() {
        if watch.elapsed() > LONG {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}
