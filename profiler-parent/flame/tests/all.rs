//! The tests of the crate's public interface.
//!
//! A test that starts a session begins with `own_process!()` and runs in a separate process.

mod foreign_samples;
