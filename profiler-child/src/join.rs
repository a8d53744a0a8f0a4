//! Asks the session whose address is in the environment for a pool.
//!
//! Called by `connect`, on the host's thread, in a process to which no parent has handed a pool.
//! Invariants: the call waits for at most the caller's patience, and not at all if nobody listens;
//! it changes nothing in the process except that, on success, two descriptors exist.

use std::time::Duration;

use ipc_protocol::environment::{AddressError, SessionAddress, session_address};
use ipc_protocol::limits;
use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining::{self, JoinError, Joined};
use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;

/// Why no pool was obtained.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The address cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The session did not let this process join.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// Asks for a pool. `name` is the file name of this program. `None` if the environment names no
/// session.
///
/// # Errors
/// [`AskError`].
pub(crate) fn ask(mut name: String, patience: Duration) -> Result<Option<Joined>, AskError> {
    let address = match session_address() {
        Ok(Some(address)) => address,
        Ok(None) => return Ok(None),
        Err(error) => return Err(report(error, patience).into()),
    };
    limits::clip(&mut name, limits::MAX_NAME_BYTES);
    let request = request(&address, name, patience);
    Ok(Some(joining::join(&address, &request, patience)?))
}

/// Tells a session of another version why this process does not join. Whether it learns it does
/// not matter to this process.
fn report(error: AddressError, patience: Duration) -> AddressError {
    if let AddressError::WrongVersion {
        path: Some(path), ..
    } = &error
    {
        let _ = joining::report_version(path, patience);
    }
    error
}

fn request(address: &SessionAddress, name: String, patience: Duration) -> JoinRequest {
    let parent = rustix::process::getppid()
        .and_then(|parent| u32::try_from(parent.as_raw_nonzero().get()).ok());
    JoinRequest {
        token: address.token().clone(),
        name,
        start: sys::own_process_start(),
        parent: ProcessId::new(parent.unwrap_or(0)),
        patience_ms: u32::try_from(patience.as_millis()).unwrap_or(u32::MAX),
    }
}
