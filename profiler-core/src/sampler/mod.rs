//! Periodic samples of what every thread does.
//!
//! Invariant: what samples refer to is in the pool's definitions before they are committed.

#[allow(dead_code)] // until the loop that uses it
pub(crate) mod counters;
mod writer;

pub use writer::{Sample, SampleWriter};

pub use crate::entry::stack::{Frame, MAX_FRAMES};
