//! Tests of the sampler from outside: threads do known work, and the tests check their samples.
//!
//! `integration-tests` contains the tests that need several processes.

#![allow(clippy::disallowed_methods)] // `Instant::now` is used for deadlines
#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod busy;
mod crowds;
mod filters;
#[cfg(not(loom))]
mod forks;
mod hosts;
mod labels;
mod read;
mod rests;
mod sleepers;
mod threads;
mod timers;
mod users;
mod waiting_stacks;
