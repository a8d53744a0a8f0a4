//! The tests of the crate, one module per subject.
//!
//! A session and the panic hook belong to a process, so each test runs in a separate one
//! (`own_process!`). The processes that die are children of that one.

mod aborts;
mod children;
mod exits;
mod markers;
mod unusual;
