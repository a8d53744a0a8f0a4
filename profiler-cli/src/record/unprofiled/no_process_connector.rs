//! In place of `process_connector` on systems that have no events about processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::connector_event::ConnectorEvent;

/// Never exists.
#[derive(Debug)]
pub(super) struct ProcessConnector(OwnedFd);

impl ProcessConnector {
    /// # Errors
    /// Always.
    pub(super) fn begin() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// No events.
    ///
    /// # Errors
    /// None.
    pub(super) const fn take(&self) -> io::Result<Vec<ConnectorEvent>> {
        Ok(Vec::new())
    }
}

impl AsFd for ProcessConnector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
