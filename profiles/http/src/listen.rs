//! The socket of a server that only programs of this machine can reach.
//!
//! Used by the services that let their user choose the address.

use std::io;
use std::net::{SocketAddr, TcpListener};

/// The reason why a server cannot listen.
#[derive(Debug)]
pub enum NoListener {
    /// Other machines could reach the address.
    NotLoopback,
    /// The system refuses it.
    Refused(io::Error),
}

impl From<io::Error> for NoListener {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

/// Listens on an address of this machine. Returns it with the port that was chosen.
pub fn listen_on_loopback(address: SocketAddr) -> Result<(TcpListener, SocketAddr), NoListener> {
    if !address.ip().is_loopback() {
        return Err(NoListener::NotLoopback);
    }
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
