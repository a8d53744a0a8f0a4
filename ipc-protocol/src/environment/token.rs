//! The secret by which a parent knows its child.
//!
//! Drawn by the parent per child, handed over in the environment, shown in `Hello`. Invariants:
//! comparing takes the same time wherever the difference lies, and no log shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{EnvironmentError, text};

/// 128 random bits, valid for one `Hello`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token([u8; Self::BYTES]);

impl Token {
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// Draws a new token.
    ///
    /// # Errors
    /// [`EnvironmentError::NoRandomness`].
    pub fn generate() -> Result<Self, EnvironmentError> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(EnvironmentError::NoRandomness)?;
        Ok(Self(bytes))
    }

    /// A token of known bits, for tests and replays.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The token as text. Whoever calls this takes care where the text goes.
    pub fn to_hex(&self) -> String {
        text::hex(&self.0)
    }

    /// Reads [`Self::to_hex`]'s text.
    pub fn from_hex(text: &str) -> Option<Self> {
        text::unhex(text)?.try_into().ok().map(Self)
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |sum, (mine, theirs)| sum | (mine ^ theirs));
        std::hint::black_box(difference) == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}
