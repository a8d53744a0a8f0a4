//! The limit on the depth of stacks in the formats that write each stack as a whole.
//!
//! Used by the formats that do not write a tree. Invariant: what is written for a stack is bounded,
//! so a chain of calls with a sample on each of its functions does not take the square of its
//! length.

/// The number of functions of a stack that are written: the innermost ones. A recorded stack has at
/// most 1024 addresses, of which some have several functions.
pub(super) const MAX_FRAMES: usize = 4096;

/// The outermost function of a stack that has further callers.
pub(super) const CALLERS_LEFT_OUT: &str = "(callers left out)";
