//! How a child reaches its parent: by the name of a socket, or by a socket that it inherits.
//!
//! Created by the parent's spawn code, opened by [`crate::transport::listener::Endpoint`] in the
//! child. The variant decides which transport both sides use.

use super::{EnvironmentError, InheritedHandle, text};

/// Where the parent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// Under the name of a socket, over [`crate::transport::ipc_channel`].
    Named(String),
    /// At the other end of an inherited socket, over [`crate::transport::inherited`].
    Inherited(InheritedHandle),
}

impl Server {
    /// The number of an inherited socket.
    pub(super) fn number(&self) -> Option<i32> {
        match self {
            Self::Named(_) => None,
            Self::Inherited(socket) => socket.number(),
        }
    }

    /// In the child: closes an inherited number, see [`InheritedHandle::release`].
    ///
    /// # Errors
    /// [`EnvironmentError::NotHanded`]; then nothing is closed.
    pub fn release(self) -> Result<(), EnvironmentError> {
        match self {
            Self::Named(_) => Ok(()),
            Self::Inherited(socket) => socket.release(),
        }
    }

    /// Formats it for the variable.
    pub(super) fn to_value(&self) -> String {
        match self {
            Self::Named(name) => format!("name:{}", text::escape(name.as_bytes())),
            Self::Inherited(socket) => socket.to_value(),
        }
    }

    /// Parses the output of [`Self::to_value`].
    pub(super) fn parse(value: &str) -> Result<Self, EnvironmentError> {
        if let Some(name) = value.strip_prefix("name:") {
            return parse_name(name)
                .map(Self::Named)
                .ok_or(EnvironmentError::Malformed("server"));
        }
        match InheritedHandle::parse(value)? {
            socket @ InheritedHandle::Descriptor { .. } => Ok(Self::Inherited(socket)),
            InheritedHandle::Path(_) => Err(EnvironmentError::Malformed("server")),
        }
    }
}

fn parse_name(text: &str) -> Option<String> {
    let name = text::unescape(text).and_then(|bytes| String::from_utf8(bytes).ok())?;
    (!name.is_empty() && !name.contains('\0')).then_some(name)
}
