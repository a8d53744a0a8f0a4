//! Where this process finds the files that another process has loaded.
//!
//! Used when a program is met and when its mappings are read. The path of a file may lead nowhere,
//! or to another file: a library may be removed or replaced as soon as it is loaded, a file may
//! have never had a path (`memfd_create`), and a path may be relative or no text. While the process
//! lives, the system leads to the file in other ways. Invariant: nothing that the process does
//! makes a look-up wait: only regular files are opened.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use profiler_core::ids::ProcessId;
use profiler_core::internal::observed::LoadedFile;
use profiler_observed::file::ObservedHeader;
use profiler_observed::layout::Ending;
use profiler_symbols::SymbolStore;
use rustix::fs::{Mode, OFlags, open};

/// What the system adds to the path of a file that was removed.
pub(super) const REMOVED: &[u8] = b" (deleted)";
/// The maximum number of descriptors of a process that are searched.
const MAX_DESCRIPTORS: usize = 256;
/// The directories whose files stay while a session runs, unless the system is updated.
const LASTING: [&str; 8] = [
    "/usr/", "/lib", "/bin/", "/sbin/", "/opt/", "/nix/", "/gnu/", "/snap/",
];

/// The first mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstMapping {
    pub(super) addresses: Range<u64>,
    pub(super) inode: u64,
}

/// The place of a path that a process uses. `None` if there is no file.
pub(super) fn by_path(pid: ProcessId, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let inside = path.strip_prefix("/").ok()?;
    let place = PathBuf::from(format!("/proc/{pid}/root")).join(inside);
    if place.exists() {
        return Some(place);
    }
    let has_ended = !Path::new(&format!("/proc/{pid}/root/.")).exists();
    (has_ended && path.exists()).then(|| path.to_owned())
}

/// The place of the program of a process: its path, or while it runs the file itself. `None` if the
/// path leads to another file here.
pub(super) fn of_program(pid: ProcessId, path: &[u8], header: &ObservedHeader) -> Option<PathBuf> {
    let place = by_path(pid, path).filter(|place| is_program(place, header));
    let itself = || {
        let is_running = header.ending == Ending::None as u32;
        Some(running_program(pid)).filter(|itself| is_running && itself.exists())
    };
    place.or_else(itself)
}

/// The path of a program without symbolic links. Returns `path` unchanged if it leads to another
/// file here than in the process.
pub(super) fn without_links(path: &[u8], header: &ObservedHeader) -> Vec<u8> {
    let resolved = std::fs::canonicalize(OsStr::from_bytes(path)).ok();
    let resolved = resolved.filter(|resolved| is_program(resolved, header));
    resolved.map_or_else(
        || path.to_vec(),
        |resolved| resolved.into_os_string().into_vec(),
    )
}

/// Whether a file is the program of the process with this header.
fn is_program(place: &Path, header: &ObservedHeader) -> bool {
    let about = std::fs::metadata(place);
    about.is_ok_and(|about| {
        (about.dev(), about.ino()) == (header.program_device, header.program_inode)
    })
}

fn running_program(pid: ProcessId) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/exe"))
}

/// The place of a mapped file. `listed` is its path as the list of mappings has it.
pub(super) fn of_mapping(pid: ProcessId, listed: &[u8], first: &FirstMapping) -> PathBuf {
    let path = listed.strip_suffix(REMOVED).unwrap_or(listed);
    let is_it = |place: &PathBuf| {
        std::fs::metadata(place).is_ok_and(|about| about.ino() == first.inode && about.is_file())
    };
    let by_path = by_path(pid, path);
    if let Some(place) = by_path.as_ref().filter(|place| is_it(place)) {
        return place.clone();
    }
    let Range { start, end } = first.addresses;
    let mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let program = PathBuf::from(format!("/proc/{pid}/exe"));
    let direct = [mapping, program].into_iter().find(is_it);
    let was_removed = path.len() != listed.len();
    let place = direct.or_else(|| descriptor(pid, is_it));
    // A file system may show another number for a file than the list of mappings.
    let place = place.or_else(|| by_path.filter(|_| !was_removed));
    place.unwrap_or_else(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// A descriptor of the process for such a file.
fn descriptor(pid: ProcessId, is_it: impl Fn(&PathBuf) -> bool) -> Option<PathBuf> {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let all = all.take(MAX_DESCRIPTORS).filter_map(Result::ok);
    all.map(|entry| entry.path()).find(is_it)
}

/// Keeps those files open whose paths may not lead to them when names are looked up.
pub(super) fn keep(files: &[LoadedFile], symbols: &SymbolStore) {
    let may_vanish = |file: &&LoadedFile| {
        let is_lasting = LASTING.iter().any(|folder| file.path.starts_with(folder));
        !is_lasting || !Path::new(&file.path).exists()
    };
    for file in files.iter().filter(may_vanish) {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if let Ok(opened) = open(&file.found_at, flags, Mode::empty()) {
            symbols.keep(&file.path, File::from(opened));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a process whose program is this file, and which has ended.
    fn ended(program: &Path) -> ObservedHeader {
        let about = std::fs::metadata(program).unwrap();
        ObservedHeader {
            ending: Ending::Exit as u32,
            program_device: about.dev(),
            program_inode: about.ino(),
            ..ObservedHeader::default()
        }
    }

    #[test]
    fn a_path_leads_to_the_program_only_if_it_is_the_same_file() {
        let place = tempfile::tempdir().unwrap();
        let [program, other, link] =
            ["program", "other", "link"].map(|name| place.path().join(name));
        std::fs::write(&program, "program").unwrap();
        std::fs::write(&other, "other").unwrap();
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let path = link.as_os_str().as_bytes();
        let resolved = program.canonicalize().unwrap();
        assert_eq!(
            without_links(path, &ended(&program)),
            resolved.as_os_str().as_bytes()
        );
        assert_eq!(
            without_links(path, &ended(&other)),
            path,
            "another root directory"
        );
        let absent = ProcessId::new(u32::MAX);
        assert_eq!(
            of_program(absent, path, &ended(&program)),
            Some(link.clone())
        );
        assert_eq!(of_program(absent, path, &ended(&other)), None);
    }
}
