//! Periodic samples of what every thread does.
//!
//! Invariant: what samples refer to is in the pool's definitions before they are committed.

#[allow(dead_code)] // until the loop that uses it
pub(crate) mod counters;
mod writer;

#[path = "absent.rs"]
pub(crate) mod here;

pub use writer::{Sample, SampleWriter};

pub use crate::entry::stack::{Frame, MAX_FRAMES};

/// A frame, and the stack pointer in it: its part of the stack reaches from there up to that of the frame outside it.
pub(crate) type PlacedFrame = (Frame, u64);

/// What a capture of the own stack gave, see [`here::capture`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    /// So many frames from the start of the room on, outermost first.
    pub(crate) len: usize,
    /// Frames further out are missing.
    pub(crate) cut: bool,
}
