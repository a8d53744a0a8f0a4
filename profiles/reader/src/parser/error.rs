//! The reason why a text cannot be read.

use std::fmt;
use std::io;

/// The reason why a text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Its file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It ends too early.
    #[error("it ends too early, after {at} bytes")]
    Cut {
        /// The length of the text.
        at: u64,
    },
    /// It is not JSON.
    #[error("expected {expected} at byte {at}")]
    Syntax {
        /// The position of the wrong byte.
        at: u64,
        /// What may be there instead.
        expected: &'static str,
    },
    /// It is JSON, but not of the expected form.
    #[error("{why}{}", At(*.at))]
    Form {
        /// The problem, in words.
        why: String,
        /// The place where reading ended, if it is known.
        at: Option<u64>,
    },
}

struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " before byte {at}"))
    }
}

impl serde::de::Error for ParseError {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Form {
            why: why.to_string(),
            at: None,
        }
    }
}

impl ParseError {
    /// Adds the place where reading ended.
    pub(super) fn before(self, place: u64) -> Self {
        match self {
            Self::Form { why, at } => Self::Form {
                why,
                at: at.or(Some(place)),
            },
            other => other,
        }
    }
}

impl From<ParseError> for io::Error {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Io(error) => error,
            ParseError::Cut { .. } => Self::new(io::ErrorKind::UnexpectedEof, error),
            _ => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}
