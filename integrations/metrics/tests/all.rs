//! The tests of the crate's public interface, one module per subject.
//!
//! A session and the recorder belong to a process, so each test runs in a separate one
//! (`own_process!`).

mod bounds;
mod inner_recorder;
mod killed;
mod metrics_in_profile;
mod sums;
mod support;
