//! The tests of the crate's public interface, one module per subject.
//!
//! A session and the logger belong to a process, so each test runs in a separate one
//! (`own_process!`).

mod beside_tracing;
mod host_code;
mod inner_logger;
mod killed;
mod records;
mod support;
mod switches;
