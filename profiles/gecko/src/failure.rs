//! The first reason why a profile could not be written, shared by all its writers.
//!
//! The code that requests a profile makes a [`FailureLatch`]; the writers, the output and the
//! reader of the pool hold clones of it. Invariants: the first failure is kept; nothing is written
//! after it; a cancelled capture counts as failed from the next check on.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Why a profile could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The capture was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The output failed.
    #[error("output failed: {message}")]
    Output {
        /// Kind of the error.
        kind: io::ErrorKind,
        /// Text of the error.
        message: String,
    },
    /// The data could not be read.
    #[error("data cannot be read: {0}")]
    Data(String),
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        Self::Output {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let kind = match &failure {
            Failure::Output { kind, .. } => *kind,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, failure)
    }
}

/// A request to cancel a capture, raised on any thread. All clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the flag permanently.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag was raised. One relaxed load, because the flag publishes no other data.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Holds the first failure; see the [module](self). All clones share one latch.
#[derive(Clone, Debug, Default)]
pub struct FailureLatch {
    first: Arc<OnceLock<Failure>>,
    cancelled: CancelFlag,
}

impl FailureLatch {
    /// A latch that fails with [`Failure::Cancelled`] once `cancelled` is raised.
    pub fn new(cancelled: CancelFlag) -> Self {
        Self {
            first: Arc::default(),
            cancelled,
        }
    }

    /// Reports a failure; only the first one counts.
    pub fn fail(&self, failure: Failure) {
        // Fails if another failure was reported first; that one is kept.
        let _ = self.first.set(failure);
    }

    /// The first failure, if there was any.
    pub fn failure(&self) -> Option<&Failure> {
        if self.first.get().is_none() && self.cancelled.is_cancelled() {
            self.fail(Failure::Cancelled);
        }
        self.first.get()
    }

    /// Whether there was a failure, so that writing more is useless. Cheap enough for every row.
    pub fn is_failed(&self) -> bool {
        self.failure().is_some()
    }

    /// Returns the first failure as an error, for the operator `?`.
    ///
    /// # Errors
    /// The first failure, if there was any.
    pub fn check(&self) -> Result<(), Failure> {
        self.failure()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

/// An output that reports its first error to a latch, and writes nothing after any failure in the
/// latch.
pub struct LatchedWriter<W> {
    out: W,
    latch: FailureLatch,
}

impl<W> LatchedWriter<W> {
    /// Writes to `out` as long as `latch` holds no failure.
    pub const fn new(out: W, latch: FailureLatch) -> Self {
        Self { out, latch }
    }

    /// Returns the output.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn latched<T>(&mut self, act: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        self.latch.check()?;
        act(&mut self.out).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.latch.fail(Failure::from(error));
            }
        })
    }
}

impl<W> fmt::Debug for LatchedWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatchedWriter")
            .field("latch", &self.latch)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Write for LatchedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.latched(|out| match out.write(bytes) {
            Ok(0) if !bytes.is_empty() => Err(io::ErrorKind::WriteZero.into()),
            other => other,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.latched(W::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_json::JsonWriter;

    fn failure(text: &str) -> Failure {
        Failure::Data(text.to_owned())
    }

    #[test]
    fn the_first_failure_sticks_for_all_clones() {
        let latch = FailureLatch::default();
        assert_eq!(latch.check(), Ok(()));
        latch.clone().fail(failure("boom"));
        latch.fail(failure("later"));
        assert_eq!(latch.check(), Err(failure("boom")));
    }

    #[test]
    fn a_raised_flag_becomes_the_failure_cancelled() {
        let flag = CancelFlag::new();
        let latch = FailureLatch::new(flag.clone());
        assert!(!latch.is_failed());
        flag.cancel();
        assert_eq!(latch.failure(), Some(&Failure::Cancelled));
        latch.fail(failure("later"));
        assert_eq!(latch.failure(), Some(&Failure::Cancelled));
    }

    #[test]
    fn cancelling_after_a_failure_does_not_hide_it() {
        let flag = CancelFlag::new();
        let latch = FailureLatch::new(flag.clone());
        latch.fail(failure("boom"));
        flag.cancel();
        assert_eq!(latch.failure(), Some(&failure("boom")));
    }

    #[test]
    fn nothing_is_written_after_a_failure_reported_elsewhere() {
        let latch = FailureLatch::default();
        let mut out = LatchedWriter::new(Vec::new(), latch.clone());
        out.write_all(b"before").unwrap();
        latch.fail(failure("boom"));
        assert!(out.write_all(b"after").is_err());
        assert!(out.flush().is_err());
        assert_eq!(out.into_inner(), b"before");
    }

    #[test]
    fn an_output_that_is_full_fails_the_latch() {
        let latch = FailureLatch::default();
        let mut small = [0_u8; 4];
        let mut json = JsonWriter::new(LatchedWriter::new(&mut small[..], latch.clone()));
        json.string("too long for four bytes");
        let error = json.finish().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
        assert!(matches!(
            latch.failure(),
            Some(Failure::Output {
                kind: io::ErrorKind::WriteZero,
                ..
            })
        ));
    }

    #[test]
    fn an_interrupted_call_is_no_failure() {
        struct Once(bool);
        impl Write for Once {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    Ok(bytes.len())
                } else {
                    Err(io::ErrorKind::Interrupted.into())
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let latch = FailureLatch::default();
        LatchedWriter::new(Once(false), latch.clone())
            .write_all(b"x")
            .unwrap();
        assert!(!latch.is_failed());
    }
}
