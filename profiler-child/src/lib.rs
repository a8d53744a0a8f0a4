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
//! - An error leaves the profiler off and the host unharmed; [`init`] returns it. With
//!   `MULTIPROCESS_PROFILER_VERBOSE=1` in the environment, [`init`] also prints it.
//!
//! # Systems
//! On Windows, and on every other system that is not a Unix, the crate compiles and does nothing:
//! [`init`] returns [`Status::NoParent`], and the macros compile to nothing. `after_fork` does not
//! exist there, because there is no fork.
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

#[cfg(unix)]
mod connect;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod gather;
#[cfg(unix)]
mod init;
#[cfg(unix)]
mod io_thread;
#[cfg(unix)]
mod join;
#[cfg(unix)]
mod outgoing;
#[cfg(unix)]
mod own_threads;
#[cfg(unix)]
mod shutdown;
#[cfg(unix)]
mod updates;
#[cfg(unix)]
mod verbose;

#[cfg(not(unix))]
mod inert;

#[doc(hidden)]
#[cfg(unix)]
pub use connect::session_is_over;
#[cfg(unix)]
pub use connect::{InitError, Status};
#[doc(hidden)]
#[cfg(unix)]
pub use fork::after_fork_silently;
#[cfg(unix)]
pub use fork::{after_fork, after_fork_within};
#[cfg(not(unix))]
pub use inert::{InitError, JOIN_WAIT, Status, init, init_within, shutdown};
#[doc(hidden)]
#[cfg(unix)]
pub use init::{Invitation, init_as, init_silently};
#[cfg(unix)]
pub use init::{JOIN_WAIT, init, init_within};
pub use profiler_core as core;
#[doc(no_inline)]
pub use profiler_core::recording_names::*;
#[doc(no_inline)]
pub use profiler_core::{blocking, flow, group, scope, span, text_marker};
#[doc(hidden)]
#[cfg(unix)]
pub use shutdown::leave;
#[cfg(unix)]
pub use shutdown::shutdown;
#[doc(hidden)]
#[cfg(unix)]
pub use verbose::{tell, tell_if_off};

pub mod label {
    //! Labels: see [`profiler_core::label`](mod@profiler_core::label). The attribute is for
    //! crates that depend on this one.

    #[doc(inline)]
    pub use profiler_core::label::function_of_child as function;
    #[doc(no_inline)]
    pub use profiler_core::label::*;
}

pub mod marker {
    //! Markers: see [`profiler_core::marker`](mod@profiler_core::marker). The derive macro is
    //! for crates that depend on this one.

    #[doc(inline)]
    pub use profiler_core::marker::ProfilerMarkerOfChild as ProfilerMarker;
    #[doc(no_inline)]
    pub use profiler_core::marker::*;
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
