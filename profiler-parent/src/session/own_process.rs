//! Whether a session records its own process.
//!
//! A process has one recorder. If it records for another session when a session starts in it,
//! because it called `profiler_child::init()` before, it stays with the other session: the session
//! that starts here records its children, and does not touch the recorder. Invariant: at most one
//! session runs in a process.

use std::sync::atomic::{AtomicU32, Ordering};

use profiler_core::session;

use super::SessionError;

/// The process in which a session runs; 0 if none does. A forked child has its parent's value,
/// which is not its own number.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// Why a session does not record its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecorded {
    /// The process called `profiler_child::init()` before the session started, and joined another
    /// session: that of `profiler record`, or of another program that has started this one. It
    /// stays with that session, whose profiles have its data.
    #[error("it records for another session, which it joined before")]
    ForAnotherSession,
}

/// The place of a session in its process. Dropping it lets another session start.
#[derive(Debug)]
pub(super) struct OwnProcess {
    why_not: Option<NotRecorded>,
}

impl OwnProcess {
    /// Takes the place.
    ///
    /// # Errors
    /// [`SessionError::AlreadyRunning`].
    pub(super) fn take() -> Result<Self, SessionError> {
        let own = std::process::id();
        if RUNS_IN.swap(own, Ordering::AcqRel) == own {
            return Err(SessionError::AlreadyRunning);
        }
        let mut place = Self { why_not: None }; // from now on its drop ends the claim
        if session::records_for_parent() {
            place.why_not = Some(NotRecorded::ForAnotherSession);
        } else if session::is_active() {
            return Err(SessionError::AlreadyRunning);
        }
        Ok(place)
    }

    /// Whether the session records its process.
    pub(super) const fn is_recorded(&self) -> bool {
        self.why_not.is_none()
    }

    /// Why the session does not record its process.
    pub(super) const fn why_not(&self) -> Option<NotRecorded> {
        self.why_not
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let own = std::process::id();
        let _ = RUNS_IN.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
