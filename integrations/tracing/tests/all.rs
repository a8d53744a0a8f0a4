//! The tests of the crate's public interface, one module per subject.
//!
//! A session and the default subscriber belong to a process, so each test runs in a separate one
//! (`own_process!`).

mod debug_values;
mod forks;
mod host_filters;
mod inner_subscriber;
mod killed;
mod layer;
mod many_sites;
mod many_spans;
mod overlapping;
mod samples;
mod saved_profile;
mod servers;
mod spans;
mod support;
mod switches;
mod traces;
