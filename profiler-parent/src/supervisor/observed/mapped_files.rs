//! The files with code that a running process has mapped, as the system lists them.
//!
//! A program's own file names those that were loaded when it began. Later ones are found here, when
//! a sample is in code that is in none of them. Invariant: the list is what the process has made
//! it: it is bounded, and a line that cannot be parsed is left out.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use profiler_core::ids::ProcessId;
use profiler_core::internal::observed::LoadedFile;

use super::module_places::{self, FirstMapping, REMOVED};

/// The most bytes of a list that are read: twenty thousand mappings with usual paths.
const MAX_BYTES: u64 = 2 << 20;
/// The bounds of the time between two lists. It is doubled while a list has no new file: code that
/// is generated at run time is in no file.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Decides when the list of a process is read again.
#[derive(Debug)]
pub(super) struct ListingPause {
    next: Duration,
    passed: Duration,
}

impl ListingPause {
    pub(super) const fn new() -> Self {
        Self {
            next: PAUSE.0,
            passed: PAUSE.0,
        }
    }

    /// Notes that this time has passed since the last call. True if a list may be read.
    pub(super) fn is_over(&mut self, since: Duration) -> bool {
        self.passed = self.passed.saturating_add(since);
        self.passed >= self.next
    }

    /// Notes that a list was read, and whether it had new files.
    pub(super) fn begin(&mut self, has_new: bool) {
        self.passed = Duration::ZERO;
        self.next = if has_new {
            PAUSE.0
        } else {
            (self.next * 2).min(PAUSE.1)
        };
    }
}

/// The kernel's own library, which is in no file: in lists, and as [`LoadedFile::path`].
const KERNEL_LIBRARY: (&[u8], &str) = (b"[vdso]", "linux-vdso.so.1");

/// The files that the process maps with code. Empty if the system does not show them.
pub(super) fn mapped_files(pid: ProcessId) -> Vec<LoadedFile> {
    let mut text = Vec::new();
    let read = File::open(format!("/proc/{pid}/maps"))
        .and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    match read {
        Ok(_) => files_in(&text, pid),
        Err(_) => Vec::new(),
    }
}

/// A file, as far as its mappings have been read.
struct Mapped<'t> {
    /// As in the list, which shows the bytes of the path as they are.
    path: &'t [u8],
    first: FirstMapping,
    addresses: Range<u64>,
    has_code: bool,
}

/// The files with code in such a list.
pub(super) fn files_in(text: &[u8], pid: ProcessId) -> Vec<LoadedFile> {
    let mut files = Vec::new();
    let mut last: Option<Mapped<'_>> = None;
    let mut keep = |mapped: Option<Mapped<'_>>| {
        if let Some(mapped) = mapped.filter(|mapped| mapped.has_code) {
            files.push(loaded(mapped, pid));
        }
    };
    for line in text.split(|byte| *byte == b'\n') {
        let Some(Line {
            addresses,
            is_code,
            is_start,
            inode,
            path,
        }) = parse(line)
        else {
            continue;
        };
        match &mut last {
            Some(mapped) if mapped.path == path && !is_start => {
                mapped.addresses.end = addresses.end;
                mapped.has_code |= is_code;
            }
            _ if is_start => {
                keep(last.take());
                let first = FirstMapping {
                    addresses: addresses.clone(),
                    inode,
                };
                last = Some(Mapped {
                    path,
                    first,
                    addresses,
                    has_code: is_code,
                });
            }
            // The beginning of the file is not mapped, so its tables are not found.
            _ => keep(last.take()),
        }
    }
    keep(last);
    files
}

fn loaded(mapped: Mapped<'_>, pid: ProcessId) -> LoadedFile {
    if mapped.path == KERNEL_LIBRARY.0 {
        return LoadedFile {
            path: KERNEL_LIBRARY.1.to_owned(),
            found_at: PathBuf::new(),
            addresses: mapped.addresses,
        };
    }
    let path = mapped.path.strip_suffix(REMOVED).unwrap_or(mapped.path);
    LoadedFile {
        path: String::from_utf8_lossy(path).into_owned(),
        found_at: module_places::of_mapping(pid, mapped.path, &mapped.first),
        addresses: mapped.addresses,
    }
}

/// A line of the list.
struct Line<'t> {
    addresses: Range<u64>,
    is_code: bool,
    /// Whether it is the file's beginning.
    is_start: bool,
    inode: u64,
    path: &'t [u8],
}

/// `start-end rwxp offset device inode /path`.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut bytes = || fields.next();
    let mut text = || std::str::from_utf8(bytes()?).ok();
    let (addresses, rights, offset, _, inode) = (text()?, text()?, text()?, text()?, text()?);
    let path = bytes()?.trim_ascii_start();
    let (start, end) = addresses.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let has_tables = path.starts_with(b"/") || path == KERNEL_LIBRARY.0;
    has_tables.then_some(Line {
        addresses: number(start)?..number(end)?,
        is_code: rights.as_bytes().get(2) == Some(&b'x'),
        is_start: number(offset)? == 0,
        inode: inode.parse().ok()?,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0-55d4 r--p 00000000 fe:00 123                        /usr/bin/program
55d4-55d8 r-xp 00004000 fe:00 123                        /usr/bin/program
55d8-55da rw-p 00008000 fe:00 123                        /usr/bin/program
55da-55ff rw-p 00000000 00:00 0                          [heap]
7f00-7f10 r--p 00000000 fe:00 9                          /usr/share/locale/archive
7f10-7f20 r--p 00000000 fe:00 124                        /usr/lib/a b.so
7f20-7f30 r-xp 00010000 fe:00 124                        /usr/lib/a b.so
7f30-7f31 r-xp 00010000 fe:00 125                        /usr/lib/without-beginning.so
7f40-7f41 r-xp 00000000 00:00 0                          [vdso]
nonsense
";

    #[test]
    fn files_with_code_are_found_from_their_beginning_to_their_end() {
        let files = files_in(MAPS.as_bytes(), ProcessId::new(u32::MAX));
        let found: Vec<_> = files
            .iter()
            .map(|file| (file.path.as_str(), file.addresses.clone()))
            .collect();
        let expected = [
            ("/usr/bin/program", 0x55d0..0x55da),
            ("/usr/lib/a b.so", 0x7f10..0x7f30),
            ("linux-vdso.so.1", 0x7f40..0x7f41),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_program_of_this_process_is_among_its_files() {
        let here = files_in as *const () as u64;
        let files = mapped_files(ProcessId::new(std::process::id()));
        let own = files
            .iter()
            .find(|file| file.addresses.contains(&here))
            .unwrap();
        assert!(own.found_at.exists());
    }

    #[test]
    fn lists_without_new_files_become_rare() {
        let mut pause = ListingPause::new();
        assert!(pause.is_over(Duration::ZERO));
        pause.begin(false);
        assert!(!pause.is_over(PAUSE.0));
        assert!(pause.is_over(PAUSE.0));
        for _ in 0..20 {
            pause.begin(false);
        }
        assert!(pause.is_over(PAUSE.1));
        pause.begin(true);
        assert!(pause.is_over(PAUSE.0));
    }
}
