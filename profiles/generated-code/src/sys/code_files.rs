//! The implementation for Linux: finds files in directories that a process may control.
//!
//! Invariants: neither a file nor its directory is a symbolic link, except those of `/proc/PID`
//! that lead to the root directory of the process; a file is opened for reading only after its type
//! is known. A file system that does not answer can make all of these functions wait.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use profiler_core::ids::{ProcessId, UserId};
use profiler_core::time::UnixNs;
use profiler_sys::{FileIdentity, FoundFile, OwnDescriptor};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, open, openat,
    openat2, statx,
};
use rustix::io::Errno;

use super::{FileFacts, FileWriters};

const NS_PER_S: u64 = 1_000_000_000;
/// The directory in which runtimes write their files.
const TEMPORARY: &str = "tmp";
/// Limit on the mappings of a process that are searched.
const MAX_MAPPINGS: usize = 1 << 17;
/// Limit on the bytes of a line that describes a mapping: the longest path, each byte of which may
/// take four characters, and the numbers before it.
const LONGEST_MAPPING: u64 = 4 * 4096 + 128;
/// How directories are opened. Such a descriptor cannot read the directory.
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open directory in which a process may have left files.
#[derive(Debug)]
pub(crate) struct CodeDirectory {
    descriptor: OwnDescriptor<OwnedFd>,
    /// Its path, for messages.
    path: PathBuf,
}

/// The directory for temporary files of a running process.
pub(crate) fn temporary_directory_of(pid: ProcessId) -> io::Result<CodeDirectory> {
    let path = format!("/proc/{pid}/root");
    let root = open(&path, DIRECTORY, Mode::empty())?;
    let temporary = openat(root, TEMPORARY, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    Ok(CodeDirectory::new(
        temporary,
        Path::new(&path).join(TEMPORARY),
    ))
}

/// The directory of the executable mapping of a running process whose file has this name. A runtime
/// maps the jitdump that it writes to, so that `perf` finds it.
pub(crate) fn directory_of_mapped(pid: ProcessId, name: &str) -> io::Result<Option<CodeDirectory>> {
    let Some(path) = mapped(File::open(format!("/proc/{pid}/maps"))?, name)? else {
        return Ok(None);
    };
    let (Some(directory), Ok(inside)) = (path.parent(), path.strip_prefix("/")) else {
        return Ok(None);
    };
    let inside = match inside.parent() {
        Some(inside) if inside != Path::new("") => inside,
        _ => Path::new("."),
    };
    let root = format!("/proc/{pid}/root");
    let shown = Path::new(&root).join(directory.strip_prefix("/").unwrap_or(directory));
    let root = open(&root, DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let opened = match openat2(&root, inside, DIRECTORY, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => {
            openat(&root, inside, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    };
    Ok(Some(CodeDirectory::new(opened?, shown)))
}

/// The path of the first executable mapping whose file has this name.
fn mapped(maps: impl Read, name: &str) -> io::Result<Option<PathBuf>> {
    let mut maps = BufReader::with_capacity(1 << 16, maps);
    let mut line = Vec::new();
    for _ in 0..MAX_MAPPINGS {
        line.clear();
        let mut limited = maps.by_ref().take(LONGEST_MAPPING);
        if limited.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let path = executable_file(line.trim_ascii_end());
        if let Some(path) = path.filter(|path| path.file_name() == Some(name.as_ref())) {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// The file in a line of `/proc/PID/maps`, if the mapping is executable.
fn executable_file(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    let mut rights: &[u8] = &[];
    for field in 0..5 {
        let end = rest.iter().position(|byte| *byte == b' ')?;
        let (word, after) = rest.split_at_checked(end)?;
        if field == 1 {
            rights = word;
        }
        rest = after.trim_ascii_start();
    }
    let is_file = rest.starts_with(b"/") && rights.get(2) == Some(&b'x');
    is_file.then(|| Path::new(std::ffi::OsStr::from_bytes(rest)))
}

/// The directory for temporary files of this process.
pub(crate) fn own_temporary_directory() -> io::Result<CodeDirectory> {
    directory_at(&Path::new("/").join(TEMPORARY))
}

/// The directory with this path.
pub(crate) fn directory_at(path: &Path) -> io::Result<CodeDirectory> {
    let opened = open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    Ok(CodeDirectory::new(opened, path.to_owned()))
}

impl CodeDirectory {
    fn new(descriptor: OwnedFd, path: PathBuf) -> Self {
        Self {
            descriptor: OwnDescriptor::new(descriptor),
            path,
        }
    }

    /// The path of a file in it, for messages.
    pub(crate) fn path_to(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether both are the same directory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let identity = |directory: &Self| {
            let descriptor = directory.descriptor.get().ok()?;
            FileIdentity::of_number(descriptor.as_raw_fd()).ok()
        };
        let own = identity(self);
        own.is_some() && own == identity(other)
    }

    /// Finds a file in it, without opening the file. The file is on the file system of the
    /// directory. Before Linux 5.6, or under a filter of system calls, this cannot be ensured; then
    /// files are found only if `allows_mounts`.
    pub(crate) fn find(&self, name: &str, allows_mounts: bool) -> io::Result<FoundFile> {
        let directory = self.descriptor.get()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let found = match openat2(directory, name, flags, Mode::empty(), resolve) {
            Err(Errno::NOSYS | Errno::PERM) if allows_mounts => {
                openat(directory, name, flags, Mode::empty())
            }
            found => found,
        };
        Ok(FoundFile::new(found?))
    }
}

/// What the system says about the file.
pub(crate) fn facts_of_file(found: &FoundFile) -> io::Result<FileFacts> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let about = statx(found.descriptor(), "", AtFlags::EMPTY_PATH, mask)?;
    let has_birth = about.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(FileFacts {
        is_regular: FileType::from_raw_mode(about.stx_mode.into()) == FileType::RegularFile,
        owner: UserId::new(about.stx_uid),
        writers: writers_of(&about),
        links: about.stx_nlink,
        bytes: about.stx_size,
        changed: time_of(about.stx_mtime),
        born: has_birth.then(|| time_of(about.stx_btime)),
    })
}

/// Who may write to a file. By convention, the group of a user alone has the user's number.
fn writers_of(about: &Statx) -> FileWriters {
    match about.stx_mode {
        mode if mode & 0o002 != 0 => FileWriters::All,
        mode if mode & 0o020 != 0 && about.stx_gid != about.stx_uid => FileWriters::Group,
        _ => FileWriters::Owner,
    }
}

fn time_of(time: StatxTimestamp) -> UnixNs {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    UnixNs(
        seconds
            .saturating_mul(NS_PER_S)
            .saturating_add(time.tv_nsec.into()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_executable_mapping_is_found_by_its_name() {
        let maps = "\
            00400000-00401000 rw-p 00000000 08:01 7    /srv/jit-5.dump\n\
            7f0000000000-7f0000001000 r-xp 00000000 00:00 0\n\
            7f0000001000-7f0000002000 r-xp 00000000 00:00 0    [vdso]\n\
            7f0000002000-7f0000003000 r-xp 00000000 08:01 7    /srv/a b/jit-5.dump\n";
        let find = |name| mapped(maps.as_bytes(), name).unwrap();
        assert_eq!(find("jit-5.dump"), Some("/srv/a b/jit-5.dump".into()));
        assert_eq!(find("jit-6.dump"), None);
        let long = "x".repeat(1 << 16);
        assert_eq!(mapped(long.as_bytes(), "x").unwrap(), None);
    }

    #[test]
    fn a_link_is_found_as_a_link_and_a_file_with_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", directory.path().join("link")).unwrap();
        let open = directory_at(directory.path()).unwrap();
        let file = open.find("file", false).unwrap();
        let facts = facts_of_file(&file).unwrap();
        assert!(facts.is_regular && facts.bytes == 4 && facts.links == 1);
        assert!(facts.born.is_none_or(|born| born <= facts.changed));
        assert_eq!(facts.owner.get(), rustix::process::geteuid().as_raw());
        let opened = file.open().unwrap().unwrap();
        assert_eq!(std::io::read_to_string(opened).unwrap(), "text");
        let link = open.find("link", false).unwrap();
        assert!(!facts_of_file(&link).unwrap().is_regular);
        let missing = open.find("nothing", false).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(open.is_same(&directory_at(directory.path()).unwrap()));
        assert!(!open.is_same(&own_temporary_directory().unwrap()));
    }

    #[test]
    fn the_directory_of_a_mapped_file_of_this_process_is_found() {
        let program = std::env::current_exe().unwrap().canonicalize().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        let pid = profiler_core::internal::sys::process_id();
        let found = directory_of_mapped(pid, name).unwrap().unwrap();
        assert!(found.is_same(&directory_at(program.parent().unwrap()).unwrap()));
        assert!(directory_of_mapped(pid, "nothing").unwrap().is_none());
    }
}
