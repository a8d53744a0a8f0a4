//! Names for code that a process generates at run time: a just-in-time compiler's functions.
//!
//! Such code is in no file that a symbol table or debug information describes. Runtimes describe it
//! in files of their own: a *perf map* (`/tmp/perf-PID.map`) or a *jitdump* (`jit-PID.dump`, in
//! `/tmp` or in the working directory). The writer of profiles calls [`GeneratedCode::resolve`]
//! once per process, with the addresses that are in no file. A session notes where a process runs
//! when it connects ([`ProcessFiles`]), because a process that has ended no longer has a root
//! directory. A runtime may write its file when it exits, so files are read at the capture.
//!
//! ```text
//! the process runs    its own /tmp, through /proc/PID/root; the directory of a jitdump that it has
//!                     mapped, as /proc/PID/maps shows it
//! it has ended        /tmp and its working directory, by their paths, if it shared its root
//!                     directory and mounts with this process; otherwise its /tmp, kept open
//! it is not trusted   only this process's /tmp, if it shares its root directory and mounts
//! ```
//!
//! Invariants: a file that may be someone else's gives no names (`trust`); no content of a file
//! makes a look-up fail, panic, or take unbounded time or memory; a directory that does not answer
//! delays a capture only for a limited time (`patience`); a process that is not trusted cannot
//! make a look-up wait; what is left out is counted and reported.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
// What only Linux calls.
#![cfg_attr(any(profiler_portable, not(target_os = "linux")), allow(dead_code))]

mod code;
mod file_kind;
mod jitdump;
mod look_up;
mod patience;
mod perf_map;
mod places;
mod process_files;
mod ranges;
mod runtime_name;
mod sys;
mod trust;

use std::io::Cursor;

pub use self::code::GeneratedCode;
pub use self::look_up::{LookUp, LookUpLimits};
pub use self::process_files::ProcessFiles;
use self::ranges::NamedRanges;
pub use self::runtime_name::RuntimeName;
use self::sys::NamespacePid;
pub use self::sys::unix_now;

/// The names that a perf map gives to ascending addresses. Public for the fuzzer, which checks that
/// no file causes a panic.
#[doc(hidden)]
pub fn names_in_perf_map(file: &[u8], addresses: &[u64]) -> Vec<Option<String>> {
    let mut ranges = NamedRanges::new(addresses);
    let _ = perf_map::read(file, &mut ranges); // reading memory does not fail
    names(&ranges, addresses)
}

/// The names that the jitdump of the process `pid` gives to ascending addresses. Public for the
/// fuzzer, as above.
#[doc(hidden)]
pub fn names_in_jitdump(file: &[u8], pid: u32, addresses: &[u64]) -> Vec<Option<String>> {
    let mut ranges = NamedRanges::new(addresses);
    let bytes = u64::try_from(file.len()).unwrap_or(u64::MAX);
    let pid = NamespacePid::new(pid);
    let _ = jitdump::read(Cursor::new(file), bytes, pid, &mut ranges);
    names(&ranges, addresses)
}

fn names(ranges: &NamedRanges, addresses: &[u64]) -> Vec<Option<String>> {
    let name = |address: &u64| {
        let name = RuntimeName::parse(ranges.name_at(*address)?);
        Some(name.function.into_owned())
    };
    addresses.iter().map(name).collect()
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests;
