//! One line for a child process: what it records becomes part of its parent's profile.
//!
//! ```
//! profiler_child::init();
//! profiler_child::core::marker!("child is up");
//! ```
//!
//! [`init`] does nothing if the environment does not name a parent, so the line can stay in every
//! build. Call it early in `main`, before other threads are started: then it can remove the
//! variable that it has read from the environment.
//!
//! # What it does
//! - Recording begins at once, in memory that outlives the process, without waiting for the parent.
//! - The parent's requests (start, stop, pause, allowance, gather) are carried out on threads of
//!   the profiler. The host's threads never touch the channel, and a stopped or dead parent does
//!   not affect them.
//! - An error leaves the profiler off and the host unharmed; [`init`] returns it.
//!
//! # Your responsibilities
//! - A forked child does not record. Start the profiler after `exec`, with a parent's `spawn`.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod connect;
mod control;
mod gather;
mod outgoing;
mod shutdown;
mod updates;

pub use connect::{InitError, Status, init};
pub use profiler_core as core;
#[doc(no_inline)]
pub use profiler_core::{blocking, group, label, marker, scope, span, text_marker};
pub use shutdown::shutdown;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
