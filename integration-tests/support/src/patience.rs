//! Waits for a condition, and measures how long something takes.
//!
//! Used by the tests of all crates. No test asserts how fast the machine is. A test waits with
//! [`until`] for an event that must happen. To show that the code does not wait for something, a
//! test sets a time-out of [`LONG`], which only such a wait would reach. If a test needs a short
//! time-out that also applies to healthy processes, [`patiently`] distinguishes a slow machine from
//! a defect.

use std::time::Duration;

/// A time longer than any step of a test takes, even on a machine that is ten times slower. Only a
/// failing test waits this long.
pub const LONG: Duration = Duration::from_secs(120);

/// Time-outs that [`patiently`] tries. Only a slow machine needs more than the first.
const TIMEOUTS: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(2),
    Duration::from_secs(15),
    LONG,
];

/// Measures elapsed time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts the measurement.
    #[allow(clippy::disallowed_methods)] // a test's own clock must not be the one under test
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits until `is_true` returns `true`. Returns `false` if it does not within [`LONG`].
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

/// The machine delayed a healthy process for longer than a time-out of the test.
#[derive(Debug)]
pub struct HeldUp(pub String);

impl std::fmt::Display for HeldUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} was held up", self.0)
    }
}

impl std::error::Error for HeldUp {}

/// Runs a scene that has a time-out. If the machine was too slow for it ([`HeldUp`]), the scene
/// runs again with a longer one. Any other error is final, and so is the last time-out.
///
/// # Errors
/// The scene's error.
pub fn patiently(mut scene: impl FnMut(Duration) -> anyhow::Result<()>) -> anyhow::Result<()> {
    for timeout in TIMEOUTS {
        match scene(timeout) {
            Err(error) if error.is::<HeldUp>() && timeout < LONG => {
                eprintln!("{timeout:?}: {error}")
            }
            other => return other,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_that_is_held_up_runs_again_with_each_longer_time_out_and_then_fails() {
        let mut tried = Vec::new();
        let held_up = patiently(|timeout| {
            tried.push(timeout);
            Err(HeldUp("it".to_owned()).into())
        });
        assert_eq!((tried.as_slice(), held_up.is_err()), (&TIMEOUTS[..], true));
    }

    #[test]
    fn any_other_error_is_final() {
        let mut tries = 0;
        let failed = patiently(|_| {
            tries += 1;
            anyhow::bail!("a defect")
        });
        assert_eq!((tries, failed.is_err()), (1, true));
    }
}
