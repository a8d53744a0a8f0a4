//! What identifies a batch and its bodies, in all attempts to send them.
//!
//! Used by the spool, the requests and the encoders. Invariant: two batches never have the same
//! identifier, also if they are from different machines.

use std::fmt;
use std::sync::Arc;

/// The version of the encoders. To be increased when they make other bodies of the same batch:
/// another number, another order or other contents. Bodies of two versions have different
/// identifiers.
pub(crate) const ENCODER_VERSION: u32 = 1;

/// Identifies the batches of one pusher: random, so that no two pushers have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesId(Arc<str>);

impl SeriesId {
    /// The identifier with this text, which may come from the name of a directory; `None` if it is
    /// not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_ours = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_ours.then(|| Self(Arc::from(text)))
    }

    /// A new identifier.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn new() -> std::io::Result<Self> {
        let id = profiler_core::internal::pool::new_id()?;
        Ok(Self::of(id.get()))
    }

    /// The identifier with this number.
    pub(crate) fn of(number: u128) -> Self {
        Self(Arc::from(format!("{number:032x}")))
    }
}

impl fmt::Display for SeriesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchId {
    pub(crate) series: SeriesId,
    /// Its number in the series.
    pub(crate) number: u64,
}

impl BatchId {
    /// The identifier of one of its bodies.
    pub(crate) const fn body(&self, number: u64) -> BodyId<'_> {
        BodyId {
            batch: self,
            number,
        }
    }

    #[cfg(test)]
    pub(crate) fn test(series: &str, number: u64) -> Self {
        Self {
            series: SeriesId(Arc::from(series)),
            number,
        }
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.series, self.number)
    }
}

/// Identifies a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyId<'b> {
    batch: &'b BatchId,
    number: u64,
}

impl fmt::Display for BodyId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-v{ENCODER_VERSION}-{}", self.batch, self.number)
    }
}
