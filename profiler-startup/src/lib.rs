//! `profiler-child` for a program that also records itself if no session does: with
//! `MULTIPROCESS_PROFILER=out.json.gz` in its environment, [`init`] starts a session of its own and
//! writes the profile when the process exits.
//!
//! An application depends on this package under the name of the other one, and nothing in its code
//! changes:
//!
//! ```toml
//! [dependencies]
//! profiler-child = { package = "profiler-startup", path = "../profiler/profiler-startup" }
//! ```
//!
//! Below a session, and without the variable, the package does what `profiler-child` does. It is a
//! package of its own because it contains `profiler-parent`, which children do not need, and
//! because its session does what no other part of the profiler does: see [`init`].

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub use profiler_child::*;

#[cfg(unix)]
mod own_session;
#[cfg(unix)]
mod startup;

#[cfg(unix)]
pub use own_session::finish;
#[cfg(unix)]
pub use startup::{init, init_within, shutdown};
