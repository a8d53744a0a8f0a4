//! The library that `profiler record` loads into the programs that it observes.
//!
//! It adds to a program: a mapped file in the session's directory ([`layout`]), a handler for one
//! signal, and a timer for each thread. It has no thread, allocates nothing, keeps no descriptor,
//! sends no message and uses no thread-local in its handler. It contains no standard library, and
//! calls one function of the C library by name, `dl_iterate_phdr`; it looks the functions up that
//! it replaces. `build.rs` compiles it.
//!
//! | module | holds |
//! |---|---|
//! | `raw` | system calls |
//! | `loaded` | the files of the process; looks functions up |
//! | `config` | the session's variable |
//! | `process` | what is known about this process |
//! | `own_file`, `text` | makes the file, and writes names into it |
//! | `threads`, `ring`, `handler` | timers; the samples |
//! | `replaced` | defines functions that replace those of the C library |
//! | `starts`, `forks`, `ends` | new threads, forked children, `exec` and `exit` |
//! | `masks`, `actions` | what the program does with signals |
//! | `bpf`, `filters` | what the program does with filters of system calls |
//! | `start` | the beginning |
//!
//! Invariant: nothing here can panic. The test `symbols` checks that the library has no code for
//! panics.

#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)]
// In the tests nothing is called by the loader.
#![cfg_attr(test, allow(dead_code, unused_imports))]

#[path = "../src/layout.rs"]
pub mod layout;

mod actions;
mod bpf;
mod config;
mod ends;
mod filters;
mod forks;
mod handler;
mod loaded;
mod masks;
mod own_file;
mod process;
mod raw;
mod replaced;
mod ring;
mod start;
mod starts;
mod text;
mod threads;

unsafe extern "C" {
    /// Does not exist: a library with code for panics cannot be loaded.
    #[cfg(not(test))]
    safe fn profiler_observed_must_not_panic() -> !;
}

#[cfg(not(test))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    profiler_observed_must_not_panic()
}
