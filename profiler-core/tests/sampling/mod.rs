//! The sampler, seen from outside: threads that do something known, and what their samples say.
//!
//! One process, one session at a time. What needs a process of its own is in `integration-tests`.

#![allow(clippy::disallowed_methods)] // deadlines of its own
#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod busy;
mod hosts;
mod labels;
mod read;
mod rests;
mod sleepers;
mod threads;
