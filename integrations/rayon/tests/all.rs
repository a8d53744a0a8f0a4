//! The tests of the crate's public interface, one module per subject.
//!
//! A session and the global pool belong to a process, so each test that needs one of them runs in a
//! separate process (`own_process!`).

mod intervals;
mod killed;
mod nested_jobs;
mod pools;
mod runs;
mod stolen_jobs;
mod support;
mod tracing_spans;
mod without_session;
