//! A child that has sent `Hello`, and the check of its `Hello`.
//!
//! Used by the transports, which accept children, and by [`listener`](super::listener), which
//! chooses a transport. Invariant: an accepted child has the right token and this version of the
//! protocol.

use super::{ParentEnds, TransportError, check_frame};
use crate::codec::{self, ProtocolError};
use crate::environment::Token;
use crate::message::{Hello, PROTOCOL_VERSION, ToParent};

/// The result of a listener's `try_accept`.
#[derive(Debug)]
pub enum TryAccept<L> {
    /// The child has not sent `Hello`. The listener's `socket` may now return a different socket.
    Waiting(L),
    /// The child has sent `Hello`.
    Accepted(Accepted),
}

/// A child that has connected and sent its `Hello`.
#[derive(Debug)]
pub struct Accepted {
    /// Its first message. The token has been compared, and the process number is from the kernel
    /// where the kernel provides one. All other fields are the child's claims.
    pub hello: Hello,
    /// The channels to it.
    pub ends: ParentEnds,
}

impl<L> TryAccept<L> {
    /// Replaces the listener of a child that has not sent `Hello`.
    pub(super) fn map<T>(self, change: impl FnOnce(L) -> T) -> TryAccept<T> {
        match self {
            Self::Waiting(listener) => TryAccept::Waiting(change(listener)),
            Self::Accepted(accepted) => TryAccept::Accepted(accepted),
        }
    }
}

/// For implementations: the `Hello` in a child's first frame, if its token and version are correct.
pub(super) fn check_hello(frame: &[u8], expected: &Token) -> Result<Hello, TransportError> {
    check_frame(frame)?;
    let ToParent::Hello(hello) = codec::decode(frame)? else {
        return Err(TransportError::PeerMisbehaved("a message before Hello"));
    };
    if hello.token != *expected {
        return Err(TransportError::WrongToken);
    }
    if hello.version != PROTOCOL_VERSION {
        let theirs = hello.version;
        let ours = PROTOCOL_VERSION;
        return Err(ProtocolError::WrongVersion { theirs, ours }.into());
    }
    Ok(hello)
}
