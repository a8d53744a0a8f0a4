//! Names for code that a process generates at run time: a just-in-time compiler's functions.
//!
//! Such code is in no file that a symbol table or debug information describes. Runtimes describe it
//! in files of their own: a *perf map* (`/tmp/perf-PID.map`) or a *jitdump* (`jit-PID.dump`, in
//! `/tmp` or in the working directory). The writer of profiles calls [`GeneratedCode::resolve`] once
//! per process, with the addresses that are in no file. The supervisor notes where a process runs
//! when it connects ([`crate::sys::whereabouts`]), because a process that has ended no longer has a
//! root directory. A runtime may write its file when it exits, so files are read at the capture.
//!
//! ```text
//! the process runs    its own /tmp and working directory, through /proc/PID
//! it has ended        the same paths, if it shared its root directory and mounts with this process
//! it is not trusted   only this process's /tmp, if it shares its root directory and mounts
//! ```
//!
//! Invariants: a file that may be someone else's gives no names ([`trust`]); no content of a file
//! makes a look-up fail, panic, or take unbounded time or memory; a process that is not trusted
//! cannot make a look-up wait; what is left out is counted and reported.

mod jitdump;
mod perf_map;
mod ranges;
mod runtime_name;
mod trust;

use std::io::{BufReader, Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys::ForeignFile;
use profiler_core::time::UnixNs;

use self::ranges::NamedRanges;
pub use self::runtime_name::RuntimeName;
use self::trust::FileTerms;
use crate::sys::{self, CodeDirectory, FoundFile, NamespacePid, Whereabouts};

/// Limit on the bytes read of one perf map.
const LARGEST_PERF_MAP: u64 = 256 << 20;
/// Limit on the bytes of one jitdump, most of which are code that is not read.
const LARGEST_JITDUMP: u64 = 1 << 30;
/// Limit on the bytes of all files of one capture.
pub(crate) const MOST_BYTES: u64 = 2 << 30;
/// The remark on a process with a root directory or mounts of its own.
const UNREACHABLE: &str = "generated code has no names: the files of the process cannot be reached";

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
    /// Where it ran when it connected.
    pub(crate) noted: Option<Arc<Whereabouts>>,
    /// When it ended, if it has.
    pub(crate) ended: Option<UnixNs>,
    pub(crate) is_trusted: bool,
}

/// A place where the files of a process may be.
#[derive(Debug)]
struct Place {
    directory: CodeDirectory,
    kinds: &'static [FileKind],
    own_pid: NamespacePid,
    terms: FileTerms,
}

/// A file that may be read.
struct Accepted {
    file: FoundFile,
    own_pid: NamespacePid,
    path: String,
}

impl GeneratedCode {
    /// Calls `found` with each of these addresses that has a name. The addresses are ascending and
    /// distinct. Reads at most `left` bytes, and subtracts the bytes that were read. Returns
    /// descriptions of what was left out.
    pub(crate) fn resolve(
        &self,
        addresses: &[u64],
        left: &mut u64,
        found: &mut dyn FnMut(u64, &RuntimeName<'_>),
    ) -> Vec<String> {
        let places = self.places();
        let mut ranges = NamedRanges::new(addresses);
        let mut remarks = Vec::new();
        if places.is_empty() && self.noted.is_some() {
            remarks.push(UNREACHABLE.to_owned());
        }
        for kind in FileKind::ALL {
            match accepted(kind, &places) {
                Ok(Some(file)) => remarks.extend(read(kind, &file, left, &mut ranges)),
                Ok(None) => {}
                Err(remark) => remarks.push(remark),
            }
        }
        for address in addresses {
            if let Some(name) = ranges.name_at(*address) {
                found(*address, &RuntimeName::parse(name));
            }
        }
        let count = ranges.left_out();
        if count > 0 {
            remarks.push(format!(
                "{count} names of generated code are left out: too many"
            ));
        }
        remarks
    }

    /// The places where its files may be, the most likely first.
    fn places(&self) -> Vec<Place> {
        let noted = self.noted.as_deref();
        let now = match self.ended {
            None => sys::whereabouts(self.pid),
            Some(_) => None,
        };
        // Another process may have the number by now.
        let now = now.filter(|now| noted.is_none_or(|noted| noted.start == now.start));
        let mut places = Vec::new();
        if let Some(now) = &now {
            if self.is_trusted {
                self.add(&mut places, sys::directories_of(self.pid), now);
            } else {
                self.add_paths(&mut places, now);
            }
        }
        if let Some(noted) = noted {
            self.add_paths(&mut places, noted);
        }
        places
    }

    /// Adds the directories that are reached by the same paths as in the process.
    fn add_paths(&self, places: &mut Vec<Place>, of: &Whereabouts) {
        if of.shares_paths {
            let working = of.directory.as_deref().filter(|_| self.is_trusted);
            let directories = [
                sys::own_temporary_directory(),
                working.and_then(sys::directory_at),
            ];
            self.add(places, directories, of);
        }
    }

    /// Adds the directory for temporary files, and the working directory.
    fn add(
        &self,
        places: &mut Vec<Place>,
        directories: [Option<CodeDirectory>; 2],
        of: &Whereabouts,
    ) {
        let kinds: [&[FileKind]; 2] = [&FileKind::ALL, &[FileKind::Jitdump]];
        let terms = FileTerms {
            user: of.user,
            started: sys::unix_start(of.start),
            ended: self.ended,
        };
        let found = directories.into_iter().zip(kinds);
        places.extend(found.filter_map(|(directory, kinds)| {
            Some(Place {
                directory: directory?,
                kinds,
                own_pid: of.own_pid,
                terms,
            })
        }));
    }
}

/// The first file of this kind that may be used. If there are only files that may not be used,
/// returns the reason for the first of them.
fn accepted(kind: FileKind, places: &[Place]) -> Result<Option<Accepted>, String> {
    let mut refused = None;
    for place in places.iter().filter(|place| place.kinds.contains(&kind)) {
        let name = kind.name(place.own_pid);
        let path = place.directory.path_to(&name);
        let why = match place.directory.find(&name) {
            Ok(file) => match place.terms.check(file.facts()) {
                Ok(()) => {
                    return Ok(Some(Accepted {
                        file,
                        own_pid: place.own_pid,
                        path: path.display().to_string(),
                    }));
                }
                Err(refusal) => refusal.to_string(),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => error.to_string(),
        };
        refused.get_or_insert_with(|| not_used(&path, &why));
    }
    refused.map_or(Ok(None), Err)
}

fn not_used(path: &Path, why: &str) -> String {
    format!("{} is not used: {why}", path.display())
}

/// Reads a file into `ranges`, within the limits. Returns descriptions of what was left out.
fn read(
    kind: FileKind,
    accepted: &Accepted,
    left: &mut u64,
    ranges: &mut NamedRanges<'_>,
) -> Vec<String> {
    let Accepted {
        file,
        own_pid,
        path,
    } = accepted;
    let bytes = file.facts().bytes.min(kind.largest());
    let Some(rest) = left.checked_sub(bytes) else {
        return vec![format!(
            "{path} was not read: earlier files used up the limit on bytes read"
        )];
    };
    *left = rest;
    let tally = file
        .open()
        .map_err(|error| error.to_string())
        .and_then(|file| parse(kind, file, bytes, *own_pid, ranges));
    let tally = match tally {
        Ok(tally) => tally,
        Err(why) => return vec![not_used(Path::new(path), &why)],
    };
    let mut remarks = Vec::new();
    if tally.malformed > 0 {
        let count = tally.malformed;
        remarks.push(format!("{count} entries of {path} are not understood"));
    }
    if tally.is_cut || bytes < file.facts().bytes {
        remarks.push(format!("{path} was read only in part: it is too large"));
    }
    remarks
}

/// Reads the first `bytes` bytes of a file.
fn parse(
    kind: FileKind,
    file: ForeignFile,
    bytes: u64,
    own_pid: NamespacePid,
    ranges: &mut NamedRanges<'_>,
) -> Result<Tally, String> {
    match kind {
        FileKind::PerfMap => {
            let from = BufReader::with_capacity(1 << 16, file.take(bytes));
            perf_map::read(from, ranges).map_err(|error| error.to_string())
        }
        FileKind::Jitdump => {
            jitdump::read(file, bytes, own_pid, ranges).map_err(|error| error.to_string())
        }
    }
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

fn names(ranges: &NamedRanges<'_>, addresses: &[u64]) -> Vec<Option<String>> {
    let name = |address: &u64| {
        let name = RuntimeName::parse(ranges.name_at(*address)?);
        Some(name.function.into_owned())
    };
    addresses.iter().map(name).collect()
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests;
