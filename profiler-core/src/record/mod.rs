//! Adds a thread's entries to the pool.
//!
//! Called by everything that records: markers, labels, counters, groups, samples and allocations.
//! An entry passes the [`session_state`] check and is written to a chunk of the calling thread's
//! `recorder`: `local` finds the recorder, `join` joins the session on first use, and `writer`
//! writes the words.

pub(crate) mod active_session;
pub(crate) mod backoff;
mod biased_lock;
pub(crate) mod join;
pub(crate) mod local;
pub(crate) mod pool_writer;
pub(crate) mod reclaim;
pub(crate) mod recorder;
pub(crate) mod recorder_list;
#[cfg_attr(profiler_portable, allow(dead_code))] // no crash is recorded on these systems
pub(crate) mod reserved_chunk;
pub(crate) mod session_state;
pub(crate) mod thread_names;
pub(crate) mod writer;

pub use session_state::is_active;
