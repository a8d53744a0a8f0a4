//! Panics as markers of the profiler, and in its verdicts on processes.
//!
//! Called by applications, once, at their start. The profiler's sessions are those of
//! `profiler-parent` and `profiler-child`; this crate starts none.
//!
//! ```
//! profiler_panic::install();
//! ```
//!
//! # What is recorded
//! While a session runs, a panic is a marker on its thread, with the message, the place in the
//! source and the stack. The marker is in the memory that outlives the process before the previous
//! panic hook runs. So it is in the profile even if that hook, or the panic itself, ends the
//! process.
//!
//! # The verdict
//! The parent names the panic that a process has died of:
//!
//! ```text
//! recovered: exited with code 101: main panicked at src/main.rs:3:5: index out of bounds: …
//! recovered: crashed with signal 6 (SIGABRT): worker panicked at src/pool.rs:70:9: no connection
//! recovered: crashed with signal 6 (SIGABRT) after worker panicked at src/pool.rs:70:9: …
//! ```
//!
//! A panic is named by this rule; the first that applies counts:
//!
//! 1. The panic hook had not returned, and the process ended by SIGABRT or with another exit code
//!    than 0: a hook has ended the process.
//! 2. The exit code is 101, and it is the latest panic of the main thread.
//! 3. The process ended by SIGABRT and cannot survive the panic: the program is compiled to abort
//!    at a panic, or the unwinding met a function that it may not leave, such as an `extern "C"`
//!    function or the `Drop` of a value that panics itself.
//! 4. The process ended by SIGABRT, and the panic is the latest thing that its thread recorded, and
//!    the thread has not ended. Then the panic may have been caught before, and the verdict says
//!    *after*.
//!
//! If the parent does not know how the process ended, as in `profiler recover`, 1, 3 and 4 apply,
//! and the verdict says *after* unless 3 applies. If only the exit code is not known, 1 applies,
//! and 4 to the main thread. In all other cases the verdict mentions no panic: a panic that was
//! caught, or that ended only its thread, does not end a process.
//!
//! # Costs
//! A program that does not panic has no cost. Without a session, a panic costs one load more. While
//! a session runs, a panic costs some microseconds more, most of them for the stack: less than the
//! unwinding of a few functions.
//!
//! # What is lost
//! The marker of a panic within the serialisation of a payload is dropped and counted; the verdict
//! names the panic. A session that is paused drops markers, too. Without a session, and in a forked
//! child that has not begun anew, a panic is not recorded.
//!
//! # Limitations
//! - `std::panic::resume_unwind` calls no hook, so it is not recorded.
//! - A hook that another part of the program installs later, without calling the one that was
//!   there, replaces this crate's. [`install`] then installs it again.
//! - A process that catches a panic of its main thread and calls `exit(101)` is said to have
//!   panicked.
//! - A marker shows at most 4 KiB of the message, a verdict the first 256 bytes.
//! - The stack begins with functions of the profiler and of the standard library that raise the
//!   panic.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod hook;
mod message;
mod panic_marker;
mod recording;

pub use hook::install;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
