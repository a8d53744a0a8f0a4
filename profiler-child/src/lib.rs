//! One line for a child process: what it records becomes part of its parent's profile.
//!
//! ```
//! profiler_child::init();
//! profiler_child::core::marker!("child is up");
//! ```
//!
//! [`init`] does nothing if the environment names neither a parent nor a session, so the line can
//! stay in every build. It does not matter who starts the process: the parent's session
//! (`Session::spawn`), the parent without the session (`Session::prepare`, `Session::environment`),
//! or any process below it, such as a shell or a job pool, whose children inherit the address of
//! the session. Call it early in `main`, before other threads are started: then it can remove the
//! parent's variable that it has read from the environment.
//!
//! # What it does
//! - Recording begins at once, in memory that outlives the process, without waiting for the parent.
//! - The parent's requests (start, stop, pause, allowance, gather) are carried out on threads of
//!   the profiler. The host's threads never touch the channel, and a stopped or dead parent does
//!   not affect them.
//! - The threads of the profiler have a descriptor table of their own (since Linux 5.9). So the
//!   program may close all descriptors and use any number, and no process that it forks inherits a
//!   descriptor of the profiler.
//! - An error leaves the profiler off and the host unharmed; [`init`] returns it.
//!
//! # Your responsibilities
//! - A forked child of a process that has called [`init`] does not record until it calls
//!   [`after_fork`], as the workers of a server that forks them do. If the server itself does not
//!   call [`init`], its workers call [`init`] instead.

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
mod fork;
mod gather;
mod init;
mod io_thread;
mod join;
mod outgoing;
mod own_threads;
mod shutdown;
mod updates;

#[doc(hidden)]
pub use connect::session_is_over;
pub use connect::{InitError, Status};
pub use fork::{after_fork, after_fork_within};
#[doc(hidden)]
pub use init::{Invitation, init_as};
pub use init::{JOIN_WAIT, init, init_within};
pub use profiler_core as core;
#[doc(no_inline)]
pub use profiler_core::{blocking, group, label, marker, scope, span, text_marker};
#[doc(hidden)]
pub use shutdown::leave;
pub use shutdown::shutdown;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
