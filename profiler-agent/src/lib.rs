//! The profiler as a shared library for C, `libprofiler_agent.so`.
//!
//! A program that is linked with the library, or that loads it with `dlopen`, records its own
//! markers, labels, counters and groups through the functions that `include/profiler.h` declares
//! ([`c_api`]), and the package for Python through some more ([`python`]). The first call of a
//! function joins the session whose address is in the environment ([`joining`]); the process is
//! from then on like one that calls `profiler_child::init()`.
//!
//! # What holds
//! - Loading the library costs the load itself and a look at the environment. It starts no thread,
//!   opens no file and changes nothing. Without a session, no function does more.
//! - The first call waits for the session's answer: usually about a millisecond, at most
//!   [`profiler_child::JOIN_WAIT`].
//! - One recorder per process: if the program or one of its libraries contains the recorder, the
//!   library does nothing. A program that is observed (`profiler-observed`) is no longer observed
//!   when it has joined.
//! - It stays out of programs with an address, memory or thread sanitizer, and of programs with
//!   more rights than their parent process.
//! - It prints nothing, unless `MULTIPROCESS_PROFILER_VERBOSE` asks for the reason for which
//!   nothing is recorded, and catches panics where it joins and leaves, and on its threads. Its
//!   descriptors are in a table of its own, which the program does not see (since Linux 5.9), and
//!   are closed by `exec`.
//!
//! The library unwinds at a panic and does not abort: a panic on a thread of the profiler ends that
//! thread, and not the program. The unwinder is linked statically (`build.rs`).

#![cfg(target_os = "linux")]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod c_api;
mod handles;
mod host;
mod joining;
pub mod python;
mod text;
