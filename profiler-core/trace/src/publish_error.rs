//! Why a process context is not published.
//!
//! Made by `process_context`. Exists on all systems, so that applications need no conditions.

use std::{error, fmt, io};

/// Why a process context is not published.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// This process has one already, from this crate or from another library.
    AlreadyPublished,
    /// The attributes take more than 64 KiB.
    TooLarge,
    /// The system refuses it.
    System(io::Error),
}

/// Written by hand, because this crate does not depend on `thiserror`.
impl fmt::Display for PublishError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyPublished => out.write_str("the process has a process context already"),
            Self::TooLarge => out.write_str("the attributes of a process take more than 64 KiB"),
            Self::System(error) => write!(out, "the system refuses a process context: {error}"),
        }
    }
}

impl error::Error for PublishError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}
