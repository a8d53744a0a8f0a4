//! The library that `profiler record` loads into the programs that it observes.
//!
//! It adds to a program: a mapped file in the session's directory ([`layout`]), a handler for one
//! signal, and a timer for each thread. If the session asks for it, it also adds handlers for the
//! crash signals. It has no thread, allocates nothing, keeps no descriptor,
//! sends no message and uses no thread-local in its handler. It contains no standard library, and
//! calls one function of the C library by name, `dl_iterate_phdr`; it looks the functions up that
//! it replaces. `build.rs` compiles it.
//!
//! A module imports only from modules in lower layers:
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `layout` | the bytes of the shared file |
//! | 1 | `raw`, `signal_set` | system calls; sets of signals |
//! | 1 | `loaded` | the loaded files of the process, and their functions |
//! | 2 | `seccomp` | whether a filter of system calls was inherited |
//! | 2 | `process`, `bpf` | what is known about this process; runs filters of system calls |
//! | 2 | `replaced` | defines functions that replace those of the C library |
//! | 3 | `config` | the session's variable |
//! | 3 | `own_file`, `text` | makes the file, and writes names into it |
//! | 3 | `threads`, `ring` | rows and timers; the pages of the samples |
//! | 4 | `spares` | files in reserve, for the children of sandboxed processes |
//! | 4 | `recording` | the beginning in a process that has a new file |
//! | 4 | `own_action` | the program's own action for our signal |
//! | 5 | `crash_actions` | the actions of the signals of crashes |
//! | 6 | `forks` | forked children |
//! | 7 | `starts`, `ends` | new threads; `exec` and `exit` |
//! | 7 | `masks`, `actions` | what the program does with signals |
//! | 8 | `filters` | what the program does with filters of system calls |
//! | 8 | `handler` | the handler of the timers' signal |
//! | 8 | `handover` | the beginning of a recorder in this process |
//! | 9 | `crash_maps` | the mappings of a process that crashes |
//! | 10 | `crash` | the handler of crashes |
//! | 11 | `start` | the beginning of a program |
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
mod crash;
mod crash_actions;
mod crash_maps;
mod ends;
mod filters;
mod forks;
mod handler;
mod handover;
mod loaded;
mod masks;
mod own_action;
mod own_file;
mod process;
mod raw;
mod recording;
mod replaced;
mod ring;
mod seccomp;
mod signal_set;
mod spares;
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
