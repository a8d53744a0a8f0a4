//! On systems other than Linux: the session has no address.

use std::sync::Arc;

use ipc_protocol::environment::SessionAddress;

use super::SessionAddressError;
use crate::supervisor::{SupervisorContext, SupervisorHandle};

/// Never created here.
#[derive(Debug)]
pub(crate) enum JoinService {}

impl JoinService {
    /// Not supported.
    pub(crate) fn start(
        _: Arc<SupervisorContext>,
        _: SupervisorHandle,
    ) -> Result<Self, SessionAddressError> {
        Err(SessionAddressError::Unsupported)
    }

    /// Never called.
    pub(crate) fn address(&self) -> &SessionAddress {
        match *self {}
    }
}
