//! Adds a thread's entries to the pool.
//!
//! Called by everything that records: markers, labels, counters, groups, samples and allocations.
//! An entry passes the [`session_state`] check and is written to a chunk of the calling thread's
//! `recorder`: `local` finds the recorder, `writer` writes the words.

pub(crate) mod backoff;
mod biased_lock;
pub(crate) mod local;
pub(crate) mod reclaim;
pub(crate) mod recorder;
pub(crate) mod session_state;
pub(crate) mod writer;

pub use session_state::is_active;
