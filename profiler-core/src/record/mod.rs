//! What a thread does to add an entry.
//!
//! Called by everything that records: markers, labels, counters, groups, samples and allocations.
//! An entry passes the [`gate`] and ends in a chunk of the calling thread's `recorder`, which
//! `local` finds; `writer` writes the words there.

pub(crate) mod gate;
mod handshake;
pub(crate) mod local;
pub(crate) mod patience;
pub(crate) mod reclaim;
pub(crate) mod recorder;
pub(crate) mod writer;

pub use gate::is_active;
