//! What sampling needs of the system: signals to one thread, registers, other threads' clocks and states.
//!
//! Called by `sampler` only. Exists on Linux on x86-64 and aarch64; elsewhere nothing is sampled, and a port is
//! this folder anew. Invariant: what runs in a signal handler allocates nothing, takes no lock and
//! keeps `errno`.

#![allow(unsafe_code)]

pub(crate) mod alternate_stack;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod signal;
pub(crate) mod tasks;
pub(crate) mod wake;
