//! The tests of the crate's public interface, one module per subject. The same tests run in a build
//! without `tokio_unstable` and in one with it; the module `hooked_tasks` needs it.
//!
//! A session belongs to a process, so each test runs in a separate one (`own_process!`).

mod alerts;
mod counters;
#[cfg(tokio_unstable)]
mod hooked_tasks;
mod killed;
mod processes;
mod profiled_futures;
mod support;
mod thread_names;
