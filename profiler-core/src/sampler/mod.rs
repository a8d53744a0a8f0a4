//! Periodic samples of what every thread does.
//!
//! Invariant: what samples refer to is in the pool's definitions before they are committed.

mod define;
mod writer;

pub use define::{define_label, define_module};
pub use writer::{Sample, SampleWriter};

pub use crate::entry::stack::{Frame, MAX_FRAMES};
