//! The address of a session, in an environment variable that every process of the tree inherits.
//!
//! The parent's session makes it and puts it into the environment of its children;
//! `profiler-child` reads it in a process to which no parent has handed a pool. Invariants: the
//! variable is never removed, because the processes that this process starts may join, too; it is
//! ignored in a process with more rights than its parent process; a malformed value is a typed
//! error. The first two fields, the version and the path, have the same form in every version, so
//! that a process of another version can tell the session why it does not join.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Token, text};
use crate::sys;
use crate::version::PROTOCOL_VERSION;

/// The name of the environment variable with the address of a session.
pub const SESSION_VARIABLE: &str = "MULTIPROCESS_PROFILER_SESSION";

/// Longest accepted value: the longest path, with every byte escaped, and the other fields.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// The reason why the address of a session cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The session speaks another version of the protocol.
    #[error("the session speaks version {theirs} of the protocol, this process version {ours}")]
    WrongVersion {
        /// The session's version.
        theirs: u32,
        /// The version of this process.
        ours: u32,
        /// Where the session listens, if the value says so.
        path: Option<PathBuf>,
    },
    /// The value does not have the form that a session writes.
    #[error("{SESSION_VARIABLE} is malformed: {0}")]
    Malformed(&'static str),
}

/// Where a session listens, and the proof that a process was told so.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionAddress {
    path: PathBuf,
    token: Token,
}

impl SessionAddress {
    /// The address of a session that listens at `path`.
    pub const fn new(path: PathBuf, token: Token) -> Self {
        Self { path, token }
    }

    /// The path of the session's socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The session's token, the same for all its processes.
    pub const fn token(&self) -> &Token {
        &self.token
    }

    /// Formats the value of the variable.
    pub fn to_value(&self) -> String {
        let path = text::escape(self.path.as_os_str().as_encoded_bytes());
        format!("{PROTOCOL_VERSION};{path};{}", self.token.to_hex())
    }

    /// Parses a value that [`Self::to_value`] made.
    ///
    /// # Errors
    /// [`AddressError::WrongVersion`], which is checked first; [`AddressError::Malformed`].
    pub fn parse(value: &str) -> Result<Self, AddressError> {
        if value.len() > MAX_VALUE_BYTES {
            return Err(AddressError::Malformed("too long"));
        }
        let mut parts = value.split(';');
        let mut next = |what| parts.next().ok_or(AddressError::Malformed(what));
        let version: u32 = next("no version")?
            .parse()
            .map_err(|_| AddressError::Malformed("version"))?;
        let path = next("no path").map(parse_path);
        if version != PROTOCOL_VERSION {
            return Err(AddressError::WrongVersion {
                theirs: version,
                ours: PROTOCOL_VERSION,
                path: path.ok().flatten(),
            });
        }
        let address = Self {
            path: path?.ok_or(AddressError::Malformed("path"))?,
            token: Token::from_hex(next("no token")?).ok_or(AddressError::Malformed("token"))?,
        };
        match parts.next() {
            Some(_) => Err(AddressError::Malformed("more than expected")),
            None => Ok(address),
        }
    }
}

impl fmt::Debug for SessionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionAddress")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Accepts absolute paths without a zero byte.
fn parse_path(text: &str) -> Option<PathBuf> {
    let bytes = text::unescape(text).filter(|bytes| !bytes.contains(&0))?;
    sys::path_from_bytes(bytes).filter(|path| path.is_absolute())
}

/// Reads the address of the session that this process belongs to, and leaves the variable in place.
///
/// `None` without a session: the variable is not set or empty, or this process has more rights than
/// its parent process (`AT_SECURE`) and so must not obey its environment.
///
/// # Errors
/// [`AddressError`].
pub fn session_address() -> Result<Option<SessionAddress>, AddressError> {
    if sys::has_raised_rights() {
        return Ok(None);
    }
    let Some(value) = std::env::var_os(SESSION_VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let value = value.to_str().ok_or(AddressError::Malformed("not UTF-8"))?;
    SessionAddress::parse(value).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> SessionAddress {
        SessionAddress::new(
            PathBuf::from("/run/user/1;000/a b:c/socket"),
            Token::from_bytes([7; Token::BYTES]),
        )
    }

    #[test]
    fn an_address_survives_the_environment() {
        assert_eq!(SessionAddress::parse(&sample().to_value()), Ok(sample()));
    }

    #[test]
    fn an_address_of_another_version_tells_where_the_session_listens() {
        let path = Some(sample().path);
        for rest in ["", ";more", ";00;and;more"] {
            let value = sample().to_value();
            let (_, after) = value.split_once(';').unwrap();
            let (known, _) = after.split_once(';').unwrap();
            let parsed = SessionAddress::parse(&format!("1000;{known}{rest}"));
            let expected = AddressError::WrongVersion {
                theirs: 1000,
                ours: PROTOCOL_VERSION,
                path: path.clone(),
            };
            assert_eq!(parsed, Err(expected));
        }
        let alone = SessionAddress::parse("1000");
        assert!(matches!(
            alone,
            Err(AddressError::WrongVersion { path: None, .. })
        ));
    }

    #[test]
    fn nonsense_is_malformed() {
        let version = PROTOCOL_VERSION;
        let token = "07".repeat(Token::BYTES);
        for value in [
            String::new(),
            "nonsense".to_owned(),
            format!("{version}"),
            format!("{version};/p"),
            format!("{version};relative;{token}"),
            format!("{version};/zero%00;{token}"),
            format!("{version};/p;{}", &token[2..]),
            format!("{version};/p;{token};"),
            format!("-1;/p;{token}"),
            format!("{version};/{};{token}", "p".repeat(MAX_VALUE_BYTES)),
        ] {
            let parsed = SessionAddress::parse(&value);
            assert!(
                matches!(parsed, Err(AddressError::Malformed(_))),
                "{value}: {parsed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_value_makes_the_parser_panic(value in ".{0,200}") {
            if let Ok(address) = SessionAddress::parse(&value) {
                prop_assert_eq!(SessionAddress::parse(&address.to_value()), Ok(address));
            }
        }
    }
}
