//! The tests of the crate, one module per subject.
//!
//! Signal handlers belong to a process, so each test runs in a separate one (`own_process!`). The
//! processes that crash are children of that one, and run the test of the same name.

#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(unsafe_code)]

mod allocator;
mod children;
mod forks;
mod handlers;
mod kinds;
mod many;
mod places;
mod unusual;
mod ways;
