//! Asks the session whose address is in the environment for a pool.
//!
//! Called by `connect` and `announce` in a process to which no parent has handed a pool.
//! Invariants: a call waits for at most the caller's patience, and not at all if no process listens
//! at the address; on success, it adds one or two descriptors to the table of the I/O thread, and
//! otherwise changes nothing in the process; only [`Candidate::of_environment`] reads the
//! environment.

use std::time::Duration;

use ipc_protocol::environment::{AddressError, SessionAddress, session_address};
use ipc_protocol::limits;
use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining::{self, Announced, JoinError, Joined};
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;

use crate::{io_thread, shutdown};

/// A process that may join a session.
#[derive(Debug)]
pub(crate) struct Candidate {
    address: SessionAddress,
    name: String,
    began_ns: u64,
}

impl Candidate {
    /// A candidate for the session whose address is in the environment. `name` is the file name of
    /// this program. `None` if the environment names no session. If the session has another
    /// version, waits for at most `patience` to tell it so.
    ///
    /// # Errors
    /// [`AddressError`].
    pub(crate) fn of_environment(
        name: String,
        patience: Duration,
    ) -> Result<Option<Self>, AddressError> {
        match session_address() {
            Ok(address) => Ok(address.map(|address| Self::of(address, name))),
            Err(error) => {
                report(&error, patience);
                Err(error)
            }
        }
    }

    /// A candidate for the session at this address.
    pub(crate) fn of(address: SessionAddress, mut name: String) -> Self {
        limits::clip(&mut name, limits::MAX_NAME_BYTES);
        Self {
            address,
            name,
            began_ns: joining::began_now(),
        }
    }

    /// Asks for a pool.
    ///
    /// # Errors
    /// [`JoinError`].
    pub(crate) fn ask(&self, patience: Duration) -> Result<Joined, JoinError> {
        joining::join(&self.address, &self.request(asks_for(patience)), patience)
    }

    /// Announces this process.
    ///
    /// # Errors
    /// [`JoinError`].
    pub(crate) fn announce(&self, patience: Duration) -> Result<Announced, JoinError> {
        joining::announce(&self.address, &self.request(0), patience)
    }

    /// Asks for a pool after [`Self::announce`].
    ///
    /// # Errors
    /// [`JoinError`].
    pub(crate) fn ask_over(
        &self,
        announced: Announced,
        patience: Duration,
    ) -> Result<Joined, JoinError> {
        let request = self.request(asks_for(patience));
        announced.join(&self.address, &request, patience, shutdown::has_left())
    }

    fn request(&self, patience_ms: u32) -> JoinRequest {
        let parent = rustix::process::getppid()
            .and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
        JoinRequest {
            token: self.address.token().clone(),
            name: self.name.clone(),
            start: sys::own_process_start(),
            parent: ProcessId::new(parent.unwrap_or(0)),
            began_ns: self.began_ns,
            patience_ms,
        }
    }
}

/// The patience in a request. 0 would be an announcement.
fn asks_for(patience: Duration) -> u32 {
    u32::try_from(patience.as_millis())
        .unwrap_or(u32::MAX)
        .max(1)
}

/// Tells a session of another version why this process does not join. Whether it learns it does
/// not matter to this process.
fn report(error: &AddressError, patience: Duration) {
    if let AddressError::WrongVersion {
        path: Some(path), ..
    } = error
    {
        let path = path.clone();
        let reported = io_thread::run(&[], patience, move || {
            joining::report_version(&path, patience)
        });
        match reported {
            Ok(_) => io_thread::end_and_wait(),
            Err(_) => io_thread::end(), // it may still run
        }
    }
}
