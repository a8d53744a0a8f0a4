//! What `/proc` and process descriptors say about processes that need not be children of this one.
//! Linux.
//!
//! Used by the exit watcher and by the admission of processes that join. Invariants: nothing here
//! changes a process, takes its exit status, or waits for it; without the right to inspect a
//! process, and without `/proc`, less is known.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::sys::OwnDescriptor;
use rustix::process::{Pid, PidfdFlags};

use super::{ProcessFacts, ProgramImage};

/// The exit status of a process that has ended and for which its parent has not waited. The pid and
/// the start time identify the process. `None` if the process has taken another user or group: the
/// system then shows 0 for every status.
pub(super) fn zombie_status(pid: u32, start: ProcessStart) -> Option<i32> {
    let about = std::fs::metadata(format!("/proc/{pid}")).ok()?;
    let own = (rustix::process::geteuid(), rustix::process::getegid());
    let is_readable = (about.uid(), about.gid()) == (own.0.as_raw(), own.1.as_raw());
    let stat = stat_of(pid)?;
    let is_this = stat_field(&stat, 3) == Some("Z") && number_in(&stat, 22) == Some(start.get());
    (is_readable && is_this)
        .then(|| stat_field(&stat, 52)?.parse().ok())
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
    let stat = stat_of(pid.get())?;
    let start = ProcessStart::new(number_in(&stat, 22)?);
    let parent = u32::try_from(number_in(&stat, 4)?).ok()?;
    let (code, code_end) = (number_in(&stat, 26)?, number_in(&stat, 27)?);
    let stack = number_in(&stat, 28)?;
    // Without the right to inspect the process, and while it executes a program, the stack is 0.
    let image = (stack != 0).then_some(ProgramImage {
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

/// A descriptor (pidfd) of the process that has this number and this start time. `None` if there is
/// no such process, or no descriptor is left.
pub(crate) fn open_process(pid: ProcessId, start: ProcessStart) -> Option<OwnDescriptor<OwnedFd>> {
    let number = Pid::from_raw(i32::try_from(pid.get()).ok()?)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty()).ok()?;
    // Compared afterwards: the number may have been given to another process before.
    is_running(pid, start).then(|| OwnDescriptor::new(process))
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

/// Whether a process maps this file. `None` if the system does not show its mappings.
pub(crate) fn maps_file(pid: ProcessId, file: &File) -> Option<bool> {
    let about = file.metadata().ok()?;
    let (major, minor) = (
        rustix::fs::major(about.dev()),
        rustix::fs::minor(about.dev()),
    );
    let device = format!("{major:02x}:{minor:02x}");
    let inode = about.ino().to_string();
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    Some(maps.lines().any(|line| {
        // After the addresses, the access and the offset.
        let mut fields = line.split_ascii_whitespace().skip(3);
        fields.next() == Some(&*device) && fields.next() == Some(&*inode)
    }))
}

/// The fields of `/proc/PID/stat` after the name, which may be any bytes.
fn stat_of(pid: u32) -> Option<String> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    Some(String::from_utf8_lossy(stat.get(end + 1..)?).into_owned())
}

/// A field, with its number in proc(5); the first one after the name is the third.
fn stat_field(stat: &str, number: usize) -> Option<&str> {
    stat.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

fn number_in(stat: &str, number: usize) -> Option<u64> {
    stat_field(stat, number)?.parse().ok()
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
    fn a_process_is_opened_only_with_its_start_time() {
        let start = profiler_core::internal::sys::own_process_start();
        assert!(open_process(own(), start).is_some());
        let other = ProcessStart::new(start.get() + 1);
        assert!(open_process(own(), other).is_none());
        assert!(!is_running(own(), other));
        assert!(open_process(ProcessId::new(u32::MAX - 1), start).is_none());
    }

    #[test]
    fn fields_are_numbered_from_the_state_on() {
        let fields = " S 7 1";
        assert_eq!(stat_field(fields, 3), Some("S"));
        assert_eq!(number_in(fields, 4), Some(7));
        assert_eq!(number_in(fields, 3), None);
        assert_eq!(stat_field(fields, 2), None);
        assert_eq!(stat_field(fields, 6), None);
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
