//! Runs work with the file system on a thread of its own, and waits for it for a limited time.
//!
//! Used by the look-up: a directory of another process may be on a file system that does not answer
//! (NFS, FUSE), and a system call that waits for it cannot be ended. The result of work that is
//! late is dropped. Invariant: at most [`MAX_RUNNING`] threads exist, those that never end
//! included.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use profiler_sys::spawn_quiet;

/// Limit on the threads of this module.
const MAX_RUNNING: usize = 16;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Why work has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResult {
    /// The work was not started, because of the limit.
    #[error("too many earlier look-ups wait for a file system")]
    TooMany,
    /// The system has no thread left.
    #[error("cannot start a thread: {0}")]
    NoThread(#[from] io::Error),
    /// The work still runs.
    #[error("the file system did not answer in time")]
    Late,
    /// The work panicked.
    #[error("the look-up panicked")]
    Panicked,
}

/// A running thread, for the limit.
struct Running;

impl Running {
    fn begin() -> Option<Self> {
        let add = |running: usize| Some(running + 1).filter(|running| *running <= MAX_RUNNING);
        let added = RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts `work`, and does not wait for it.
pub(crate) fn start(work: impl FnOnce() + Send + 'static) -> Result<(), NoResult> {
    let running = Running::begin().ok_or(NoResult::TooMany)?;
    let body = move || {
        let _running = running;
        work();
    };
    spawn_quiet("profiler-code", body)?;
    Ok(())
}

/// Runs `work`, and waits for its result for at most this time.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoResult> {
    let (give, take) = crossbeam_channel::bounded(1);
    start(move || {
        let _ = give.send(work()); // fails if nobody waits any longer
    })?;
    take.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => NoResult::Late,
        RecvTimeoutError::Disconnected => NoResult::Panicked,
    })
}

#[cfg(test)]
mod tests {
    use test_support::own_process;
    use test_support::patience::until;

    use super::*;

    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn work_that_does_not_end_is_left_behind_and_is_limited() {
        own_process!(); // counts the threads of the process
        let (release, wait) = crossbeam_channel::bounded::<()>(0);
        for _ in 0..MAX_RUNNING {
            let wait = wait.clone();
            let late = within(Duration::from_millis(1), move || wait.recv().is_ok());
            assert!(matches!(late, Err(NoResult::Late)), "{late:?}");
        }
        assert!(matches!(within(LONG, || 1), Err(NoResult::TooMany)));
        drop(release);
        assert!(until(|| RUNNING.load(Ordering::Relaxed) == 0));
        assert!(matches!(within(LONG, || 1), Ok(1)));
    }

    #[test]
    fn a_panic_is_an_error() {
        let panicked = within(LONG, || -> u32 { panic!("this is a test") });
        assert!(matches!(panicked, Err(NoResult::Panicked)), "{panicked:?}");
    }
}
