//! What a thread does to add an entry.
//!
//! Called by everything that records: markers, labels, counters, groups, samples and allocations.
//! An entry passes the [`session_state`] and ends in a chunk of the calling thread's `recorder`, which
//! `local` finds; `writer` writes the words there.

pub(crate) mod session_state;
mod biased_lock;
pub(crate) mod local;
pub(crate) mod backoff;
pub(crate) mod reclaim;
pub(crate) mod recorder;
pub(crate) mod writer;

pub use session_state::is_active;
