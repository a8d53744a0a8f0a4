//! The call of the host: for whom this process is to record, as its environment says.
//!
//! [`init`] reads the environment when it is called. The library for C reads it when it is loaded,
//! because the program may change it while it runs. Invariant: only the functions that make an
//! [`Invitation`] read the environment.

use std::time::Duration;

use ipc_protocol::environment::{
    self, AddressError, ChildEnvironment, EnvironmentError, SessionAddress,
};
use profiler_core::session;

use crate::connect::{InitError, Status, record_for, record_for_session, status_if_begun};
use crate::join::report;
use crate::verbose::tell_if_off;

/// How long [`init`] waits for a session that this process joins by itself. A thread of the
/// profiler waits longer.
pub const JOIN_WAIT: Duration = Duration::from_millis(20);

/// Begins to record, if the environment names a parent or a session.
///
/// A process that a session has started with `spawn` was handed its memory. Any other process of
/// the tree joins by itself: it inherits the address of the session
/// (`MULTIPROCESS_PROFILER_SESSION`) from the process that started it, whichever that is, and asks
/// the session for memory. If the session is over, full, of another version or of another user, the
/// process runs on without a profiler, and the returned [`Status`] says why. If the session does not
/// answer in time, a thread of the profiler goes on waiting ([`Status::Joining`]).
///
/// A process whose memory was handed over spends about a millisecond of the host's thread here
/// (`figures -- gather` prints `child.init_ms`). A process that joins waits for the session's
/// answer: usually for about a millisecond, at most for [`JOIN_WAIT`], and not at all if no process
/// listens (`figures -- join` prints `join.ms` and `join.host_wait_ms.no_parent`). A thread of the
/// profiler does everything else. If that thread does not get to run, for example because `init` is
/// called within a `dlopen` that blocks new threads, the call returns 10 s later, and the process
/// does not record. Never panics.
///
/// # Why is it off?
/// If the variable `MULTIPROCESS_PROFILER_VERBOSE` is set to `1`, a call after which the process
/// does not record prints the reason: one line on standard error. Otherwise nothing is printed.
///
/// # A program with no session
/// The function starts no session. A program that is built with the crate `profiler-startup` in the
/// place of this one starts one of its own if the variable `MULTIPROCESS_PROFILER` asks for it.
pub fn init() -> Status {
    init_within(JOIN_WAIT)
}

/// Like [`init`], with another limit on the wait for a session that this process joins by itself.
pub fn init_within(patience: Duration) -> Status {
    let status = init_silently(patience);
    tell_if_off(&status);
    status
}

/// Like [`init_within`], and prints nothing.
pub fn init_silently(patience: Duration) -> Status {
    match status_if_begun() {
        Some(status) => status,
        None => Invitation::of_environment().follow(patience),
    }
}

/// Like [`init_within`], for a process that has read its environment before.
pub fn init_as(invitation: Invitation, patience: Duration) -> Status {
    match status_if_begun() {
        Some(status) => status,
        None => invitation.follow(patience),
    }
}

/// Records for the session that the environment names. For a process that has begun.
pub(crate) fn join(patience: Duration) -> Status {
    Invitation::of_session_in_environment().follow(patience)
}

/// For whom this process is to record.
#[derive(Debug)]
pub struct Invitation {
    /// What a parent has handed over.
    handed: Result<Option<ChildEnvironment>, EnvironmentError>,
    /// The session that the process may join.
    address: Result<Option<SessionAddress>, AddressError>,
}

impl Invitation {
    /// Reads the environment, and removes the variable of the parent while the process has one
    /// thread.
    #[must_use]
    pub fn of_environment() -> Self {
        Self {
            handed: environment::take(),
            ..Self::of_session_in_environment()
        }
    }

    /// The session that the environment names.
    pub(crate) fn of_session_in_environment() -> Self {
        Self {
            handed: Ok(None),
            address: environment::session_address(),
        }
    }

    /// The session with this address: the value of the environment variable
    /// `MULTIPROCESS_PROFILER_SESSION` in the processes of the session.
    #[must_use]
    pub fn of_session(address: &str) -> Self {
        Self {
            handed: Ok(None),
            address: SessionAddress::parse(address).map(Some),
        }
    }

    /// Whether a parent or a session asks this process to record, or something damaged does.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        !matches!((&self.handed, &self.address), (Ok(None), Ok(None)))
    }

    /// Records. Waits for a session at most for `patience`.
    pub(crate) fn follow(self, patience: Duration) -> Status {
        if session::is_active() {
            return self.stay_with_own_session();
        }
        let refused = match self.handed.map(|handed| handed.map(record_for)) {
            Ok(None) => None,
            Ok(Some(Ok(()))) => return Status::Recording,
            Ok(Some(Err(error))) if error.is_of_another_process() => Some(error),
            Ok(Some(Err(error))) => return Status::Off(error),
            Err(error) => return Status::Off(error.into()),
        };
        match self.address {
            Ok(None) => refused.map_or(Status::NoParent, Status::Off),
            Ok(Some(address)) => match record_for_session(address, patience) {
                Ok(status) => status,
                Err(error) => Status::Off(error),
            },
            Err(error) => {
                report(&error, patience);
                Status::Off(error.into())
            }
        }
    }

    /// The status of a process that records for a session of its own. It stays with that session: a
    /// process has one recorder, and another pool would end the recording.
    fn stay_with_own_session(self) -> Status {
        match (self.handed, self.address) {
            (Ok(None), Ok(None)) => Status::NoParent,
            (Err(error), _) => Status::Off(error.into()),
            (Ok(None), Err(error)) => Status::Off(error.into()),
            (Ok(_), _) => Status::Off(InitError::OwnSession),
        }
    }
}
