//! What a thread does to add an entry.
//!
//! Entries come from `marker`, pass the [`gate`], and end in a chunk of the calling thread's
//! `recorder`, found through `local`; `writer` puts the words there.

pub(crate) mod gate;
mod handshake;
pub(crate) mod local;
pub(crate) mod patience;
pub(crate) mod reclaim;
pub(crate) mod recorder;
pub(crate) mod writer;

pub use crate::losses;
