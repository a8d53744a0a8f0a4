//! The system functions that sampling needs: signals to one thread, registers, clocks and states of
//! other threads.
//!
//! Called by `sampler` only. Exists on Linux on x86-64 and aarch64; elsewhere nothing is sampled,
//! and a port provides another version of this folder. Invariant: code that runs in a signal
//! handler allocates nothing, takes no lock and keeps `errno`.

#![allow(unsafe_code)]

pub(crate) mod alternate_stack;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod perf_event;
pub(crate) mod signal;
pub(crate) mod timer;
pub(crate) mod trap;

pub(crate) use profiler_sys::{other_process, tasks, thread_activity};
