//! Asks a session for a pool.
//!
//! Called by `connect` on the I/O thread, in a process to which no parent has handed a pool. The
//! host waits for a short time only; the I/O thread goes on for [`LONGEST_WAIT`], because a session
//! that many processes join at once, or on a busy machine, answers later. Invariants: a call does
//! not wait if no process listens at the address, and it ends soon after the profiler has ended in
//! this process; on success, it adds one or two descriptors to the table of the I/O thread, and
//! otherwise changes nothing in the process.

use std::time::Duration;

use ipc_protocol::environment::{AddressError, SessionAddress};
use ipc_protocol::limits;
use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining::{self, JoinError, Joined};
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;

use crate::{io_thread, shutdown};

/// How long the I/O thread waits for the session's answer, at least.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A process that may join a session.
#[derive(Debug)]
pub(crate) struct Candidate {
    address: SessionAddress,
    name: String,
}

impl Candidate {
    /// A candidate for the session at this address.
    pub(crate) fn of(address: SessionAddress, mut name: String) -> Self {
        limits::clip(&mut name, limits::MAX_NAME_BYTES);
        Self { address, name }
    }

    /// Asks for a pool. `patience` is the time for which the host waits.
    ///
    /// # Errors
    /// [`JoinError`].
    pub(crate) fn ask(&self, patience: Duration) -> Result<Joined, JoinError> {
        let patience = patience.max(LONGEST_WAIT);
        let goes_on = || !shutdown::has_ended();
        joining::join_while(&self.address, &self.request(patience), patience, &goes_on)
    }

    fn request(&self, patience: Duration) -> JoinRequest {
        let parent = rustix::process::getppid()
            .and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
        JoinRequest {
            token: self.address.token().clone(),
            name: self.name.clone(),
            start: sys::own_process_start(),
            parent: ProcessId::new(parent.unwrap_or(0)),
            patience_ms: u32::try_from(patience.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

/// Tells a session of another version why this process does not join. Whether it learns it does
/// not matter to this process.
pub(crate) fn report(error: &AddressError, patience: Duration) {
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
