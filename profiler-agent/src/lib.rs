//! The profiler as a shared library, `libprofiler_agent.so`: for programs that cannot be changed,
//! and for C.
//!
//! `profiler record` loads the library into every program of the tree that it starts
//! (`LD_PRELOAD`). When the library is loaded, before the program's `main`, it announces the
//! program to the session whose address is in the environment ([`start`]), and joins the session
//! when the program has run for some milliseconds ([`later`]); the process is from then on like one
//! that calls `profiler_child::init()`. Forked children that execute no other program join, too
//! ([`forks`]). A program that is linked with the library, or that loads it with `dlopen`, can
//! record its own markers, labels, counters and groups through the functions that
//! `include/profiler.h` declares ([`c_api`]).
//!
//! # What holds
//! - Without a session, loading the library costs the load itself, the look-up of a dozen
//!   functions, and a look at the environment. It starts no thread, opens no file and changes
//!   nothing.
//! - With a session, the program's thread starts one thread, which connects to the session and
//!   sends one packet. It waits for that, and for no answer, except in the first function for C:
//!   usually about a millisecond, at most [`profiler_child::JOIN_WAIT`].
//! - A program that ends before it is recorded costs nothing else, and the profile contains its
//!   name and for how long it ran.
//! - One recorder per process: if the program or one of its libraries contains the recorder, the
//!   agent does nothing.
//! - It stays out of programs with an address, memory or thread sanitizer, and of programs with
//!   more rights than their parent process.
//! - It prints nothing, and catches panics where it starts, joins and leaves, and on its threads.
//!   `errno` is 0 when the program begins. Its descriptors are in a table of its own, which the
//!   program does not see (since Linux 5.9), and are closed by `exec`.
//! - It exports the functions of the header, and replaces those functions of the C library that
//!   concern all threads ([`replaced`]): its threads are not in the way of a program that changes
//!   its user or its namespaces. It leaves the process before, if that is necessary ([`leaving`]).
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
mod errno;
mod filters;
mod forks;
mod handles;
mod host;
mod later;
mod leaving;
mod loading;
mod presence;
pub mod replaced;
mod rights;
mod start;
mod text;
