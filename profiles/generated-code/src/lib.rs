//! Names for code that a process generates at run time: a just-in-time compiler's functions.
//!
//! Such code is in no file that a symbol table or debug information describes. Runtimes describe it
//! in files of their own: a *perf map* (`/tmp/perf-PID.map`) or a *jitdump* (`jit-PID.dump`, in
//! `/tmp` or in the working directory). The writer of profiles calls [`GeneratedCode::resolve`] once
//! per process, with the addresses that are in no file. The supervisor notes where a process runs
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
//! Invariants: a file that may be someone else's gives no names ([`trust`]); no content of a file
//! makes a look-up fail, panic, or take unbounded time or memory; a directory that does not answer
//! delays a capture only for a limited time ([`patience`]); a process that is not trusted cannot
//! make a look-up wait; what is left out is counted and reported.

mod jitdump;
mod look_up;
mod patience;
mod perf_map;
mod places;
mod process_files;
mod ranges;
mod runtime_name;
mod trust;

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use profiler_core::ids::ProcessId;
use profiler_core::time::UnixNs;

pub(crate) use self::look_up::{LookUp, LookUpLimits};
use self::places::Places;
pub(crate) use self::process_files::ProcessFiles;
use self::ranges::NamedRanges;
pub use self::runtime_name::RuntimeName;
use crate::sys::NamespacePid;

/// Limit on the bytes read of one perf map.
const LARGEST_PERF_MAP: u64 = 256 << 20;
/// Limit on the bytes of one jitdump, most of which are code that is not read.
const LARGEST_JITDUMP: u64 = 1 << 30;
/// How much longer than its limit a look-up may take: the time to open a file and start a thread.
const GRACE: Duration = Duration::from_secs(1);

/// The entries of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Entries that were understood.
    entries: u64,
    /// Entries that were not.
    malformed: u64,
    /// Whether entries were left out: there are too many.
    is_cut: bool,
}

/// The formats of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    PerfMap,
    Jitdump,
}

impl FileKind {
    /// In the order in which they are read. A jitdump replaces names of a perf map.
    const ALL: [Self; 2] = [Self::PerfMap, Self::Jitdump];

    fn name(self, pid: NamespacePid) -> String {
        match self {
            Self::PerfMap => format!("perf-{}.map", pid.get()),
            Self::Jitdump => format!("jit-{}.dump", pid.get()),
        }
    }

    const fn largest(self) -> u64 {
        match self {
            Self::PerfMap => LARGEST_PERF_MAP,
            Self::Jitdump => LARGEST_JITDUMP,
        }
    }
}

/// The generated code of one process.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedCode {
    pub(crate) pid: ProcessId,
    /// Its parent process, if it may have been forked, and have executed no program since. It also
    /// runs code that its parent has generated and described.
    pub(crate) forked_from: Option<ProcessId>,
    /// What is known of its files since it connected.
    pub(crate) files: Option<Arc<ProcessFiles>>,
    /// When it ended, if it has.
    pub(crate) ended: Option<UnixNs>,
    pub(crate) is_trusted: bool,
}

impl GeneratedCode {
    /// Looks for the names of these addresses, which are ascending and distinct. Returns within
    /// the limits and a second.
    pub(crate) fn resolve(&self, addresses: &[u64], limits: LookUpLimits) -> LookUp {
        let code = self.clone();
        let wanted: Box<[u64]> = addresses.into();
        let look_up = move || LookUp::new(&wanted, &Places::of(&code), limits);
        let patience = limits.patience + GRACE;
        let found = match &self.files {
            Some(files) => files.within(patience, look_up),
            None => patience::within(patience, look_up),
        };
        found.unwrap_or_else(|error| {
            let mut nothing = LookUp::nothing(addresses);
            nothing.unreachable = Some(error.to_string());
            nothing
        })
    }
}

/// The system's time, for the limits on look-ups.
#[allow(clippy::disallowed_methods)] // compared with itself only
pub(crate) fn now() -> Instant {
    Instant::now()
}

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
