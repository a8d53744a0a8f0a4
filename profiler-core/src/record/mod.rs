//! What a thread does to add an entry.
//!
//! Entries come from `marker`, pass the [`gate`], and end in a chunk of the calling thread's
//! `recorder`, found through `local`.

pub(crate) mod gate;
pub(crate) mod local;
mod patience;
pub(crate) mod recorder;

pub use crate::losses;
