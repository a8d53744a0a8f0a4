//! What `/proc` and process descriptors say about processes that need not be children of this one.
//! Linux.
//!
//! Used by the exit watcher and by the admission of processes that join. Invariants: nothing here
//! changes a process, takes its exit status, or waits for it; without the right to inspect a
//! process, and without `/proc`, less is known.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::sys::ProcessStat;

use super::{ProcessFacts, ProgramImage};

/// Limit on the bytes of `/proc/PID/maps` that are read: twenty thousand mappings of files with
/// usual paths.
const MAX_MAPS_BYTES: u64 = 2 << 20;

/// The exit status of a process that has ended and for which its parent has not waited. The pid and
/// the start time identify the process. `None` if the process has taken another user or group: the
/// system then shows 0 for every status.
pub(super) fn zombie_status(pid: u32, start: ProcessStart) -> Option<i32> {
    let about = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    let own = (rustix::process::geteuid(), rustix::process::getegid());
    let is_readable = (about.uid(), about.gid()) == (own.0.as_raw(), own.1.as_raw());
    let stat = ProcessStat::of(ProcessId::new(pid))?;
    let is_this = stat.state() == Some("Z") && stat.start() == Some(start);
    (is_readable && is_this)
        .then(|| stat.field(52)?.parse().ok())
        .flatten()
}

/// The exit status of a process that its parent has reaped, since Linux 6.15.
#[allow(unsafe_code)]
pub(super) fn reaped_status(process: &OwnedFd) -> Option<i32> {
    /// `_IOWR(0xFF, 11, struct pidfd_info)`, for the first version of the structure.
    const PIDFD_GET_INFO: u32 = 0xc040_ff0b;
    /// The bit of `mask` for the exit status.
    const EXIT: u64 = 1 << 3;
    /// `struct pidfd_info`.
    #[repr(C)]
    #[derive(Default)]
    struct PidfdInfo {
        mask: u64,
        _cgroup: u64,
        _ids: [u32; 11],
        exit_code: i32,
    }
    let mut info = PidfdInfo {
        mask: EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the request contains the size of the structure; the kernel reads and writes one of
    // that size through the pointer, which is valid for one. Other files refuse the request.
    let failed = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
    (failed == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

/// What `/proc` says about a process. `None` if there is no such process, or no `/proc`.
pub(crate) fn facts_of(pid: ProcessId) -> Option<ProcessFacts> {
    let stat = ProcessStat::of(pid)?;
    let start = stat.start()?;
    let parent = u32::try_from(stat.number(4)?).ok()?;
    let (code, code_end) = (stat.number(26)?, stat.number(27)?);
    let stack = stat.number(28)?;
    // Without the right to inspect the process the stack is 0, and while it executes a program one
    // of the two.
    let image = (code != 0 && stack != 0).then_some(ProgramImage {
        start,
        code,
        code_end,
        stack,
    });
    Some(ProcessFacts {
        start,
        parent: ProcessId::new(parent),
        image,
    })
}

/// Whether a process with this number and this start time exists.
pub(crate) fn is_running(pid: ProcessId, start: ProcessStart) -> bool {
    facts_of(pid).is_some_and(|facts| facts.start == start)
}

/// The name of a process in the system: of its first thread, or of its program.
pub(crate) fn name_of(pid: ProcessId) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim().to_owned())
}

/// Whether a process maps this file. `None` if the system does not show its mappings, if there are
/// very many, or if they name the file with another device: some file systems (btrfs) have two.
/// Waits for the process if that changes its mappings.
pub(crate) fn maps_file(pid: ProcessId, file: &File) -> Option<bool> {
    let about = file.metadata().ok()?;
    let (major, minor) = (
        rustix::fs::major(about.dev()),
        rustix::fs::minor(about.dev()),
    );
    let device = format!("{major:02x}:{minor:02x}");
    is_in(
        File::open(format!("/proc/{pid}/maps")).ok()?,
        &device,
        &about.ino().to_string(),
    )
}

/// Whether the file with this device and inode is in the text of `/proc/PID/maps`.
fn is_in(maps: impl Read, device: &str, inode: &str) -> Option<bool> {
    let mut maps = BufReader::with_capacity(1 << 16, maps.take(MAX_MAPS_BYTES));
    let (mut line, mut read) = (Vec::new(), 0_u64);
    let mut has_other_device = false;
    loop {
        line.clear();
        let length = maps.read_until(b'\n', &mut line).ok()?;
        read = read.saturating_add(u64::try_from(length).ok()?);
        if length == 0 {
            let is_whole = read < MAX_MAPS_BYTES;
            return (is_whole && !has_other_device).then_some(false);
        }
        // After the addresses, the access and the offset.
        let mut fields = line.split(u8::is_ascii_whitespace).skip(3);
        let is_same_device = fields.next() == Some(device.as_bytes());
        match (is_same_device, fields.next() == Some(inode.as_bytes())) {
            (true, true) => return Some(true),
            (false, true) => has_other_device = true,
            (_, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::MemfdFlags;
    use rustix::mm::{MapFlags, ProtFlags};

    use super::*;

    fn own() -> ProcessId {
        ProcessId::new(std::process::id())
    }

    #[test]
    fn the_facts_of_this_process_are_known() {
        let facts = facts_of(own()).unwrap();
        let start = profiler_core::internal::sys::own_process_start();
        assert_eq!(facts.start, start);
        assert_eq!(facts.parent.get(), std::os::unix::process::parent_id());
        assert!(facts.image.is_some());
        assert_eq!(facts_of(ProcessId::new(u32::MAX - 1)), None);
    }

    #[test]
    fn a_process_runs_only_with_its_start_time() {
        let start = profiler_core::internal::sys::own_process_start();
        assert!(is_running(own(), start));
        assert!(!is_running(own(), ProcessStart::new(start.get() + 1)));
    }

    #[test]
    fn a_file_is_found_in_maps_by_device_and_inode() {
        let maps = "\
            00400000-00401000 rw-p 00000000 08:01 7    /srv/00:2a 9\n\
            7f0000000000-7f0000001000 r-xp 00000000 00:00 0\n\
            7f0000001000-7f0000002000 rw-s 00000000 00:1b 9    /srv/pool\n";
        let is_mapped = |device, inode| is_in(maps.as_bytes(), device, inode);
        assert_eq!(is_mapped("00:1b", "9"), Some(true));
        assert_eq!(is_mapped("08:01", "8"), Some(false));
        assert_eq!(
            is_mapped("00:1c", "9"),
            None,
            "another device of the file system"
        );
    }

    #[test]
    fn mappings_are_read_up_to_a_limit() {
        let line = "00400000-00401000 rw-p 00000000 08:01 7 /srv\n";
        let found = |count: usize| {
            let maps = line.repeat(count) + "00400000-00401000 rw-p 00000000 08:01 9 /pool\n";
            is_in(maps.as_bytes(), "08:01", "9")
        };
        assert_eq!(found(1000), Some(true));
        assert_eq!(found(1 << 17), None, "not known");
        assert_eq!(
            is_in(std::io::repeat(b'x'), "08:01", "9"),
            None,
            "a line without an end"
        );
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_mapped_file_is_recognised() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(4096).unwrap();
        assert_eq!(maps_file(own(), &file), Some(false));
        let (none, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the system chooses; it is not accessed.
        let map = unsafe { rustix::mm::mmap(none, 4096, ProtFlags::READ, flags, &file, 0) };
        let map = map.unwrap();
        assert_eq!(maps_file(own(), &file), Some(true));
        // SAFETY: the mapping was made above, and nothing uses it.
        unsafe { rustix::mm::munmap(map, 4096) }.unwrap();
        assert_eq!(maps_file(own(), &file), Some(false));
        assert_eq!(maps_file(ProcessId::new(u32::MAX - 1), &file), None);
    }
}
