//! For whom this process is to record, as its environment says.
//!
//! Read by [`init`](crate::init) when it is called, and by the library for C when it is loaded: the
//! program may change its environment while it runs. Invariant: only the functions that make an
//! [`Invitation`] read the environment.

use std::time::Duration;

use ipc_protocol::environment::{
    self, AddressError, ChildEnvironment, EnvironmentError, SessionAddress,
};
use profiler_core::session;

use crate::connect::{InitError, Status, record_for, record_for_session};
use crate::join::report;

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
                Ok(()) => Status::Recording,
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
