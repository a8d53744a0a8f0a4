//! On other systems: there is no such socket.

use std::io;

/// Never made here.
pub(crate) type Connection = io::Cursor<Vec<u8>>;

/// Never made here.
#[derive(Debug)]
pub(crate) enum Listener {}

impl Listener {
    /// Not supported.
    pub(crate) fn bind() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn accept(&self) -> io::Result<Connection> {
        match *self {}
    }
}

/// Not supported.
pub(crate) fn connect(_: u32) -> io::Result<Option<Connection>> {
    Err(io::ErrorKind::Unsupported.into())
}
