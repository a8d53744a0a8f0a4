//! The system functions on Linux: sealed memfds, hole punching, populating pages, expedited
//! membarrier, fork handling.
//!
//! Called through `sys` only. Invariant: no function here panics, and every failure that the caller
//! can tolerate is a `false` or a fallback rather than an error.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::Advice;

use profiler_sys::OwnFile;

use super::{ClockError, ProcessStat};
use crate::ids::{BootId, ProcessId, ProcessStart};

/// Makes the memory of a pool: a sparse memfd of `len` bytes that can neither shrink nor grow.
///
/// Not sealed against future writes: that would also forbid punching holes, and a destroyed chunk
/// must return its pages.
///
/// # Errors
/// Errors of the kernel: no memfd, no descriptor left, or a file size limit.
pub(crate) fn create_pool_file(len: u64) -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("profiler-pool", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| rustix::fs::memfd_create("profiler-pool", flags))?;
    stretch(&fd, len)?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(File::from(fd))
}

/// Makes an empty file `len` bytes long, without taking memory or disk.
///
/// # Errors
/// Errors of the file system. The limit on the size of files is checked first: the kernel would end
/// the process for exceeding it.
pub(crate) fn stretch(file: &impl AsFd, len: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| len > limit) {
        return Err(rustix::io::Errno::FBIG.into());
    }
    Ok(rustix::fs::ftruncate(file, len)?)
}

/// The machine's present boot.
pub fn boot_id() -> BootId {
    let text = profiler_sys::read_text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    BootId::new(u128::from_str_radix(&digits, 16).unwrap_or(0))
}

/// Whether no process can shorten the file, so that a mapping of it never faults.
pub(crate) fn cannot_shrink(file: &impl AsFd) -> bool {
    let needed = SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(needed))
}

/// Returns the pages of a range of a pool file to the system, without mapping it.
///
/// # Errors
/// Errors of `fallocate`; a file system may not support holes.
pub(crate) fn punch_hole(file: &impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, len)?)
}

/// Prepares a mapping: not inherited over fork, and no huge pages that would exceed the budget.
///
/// # Safety
/// `start..start + len` is one whole mapping that the caller owns.
pub(crate) unsafe fn advise_mapping(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise; DONTFORK changes only what a future fork copies.
    unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxDontFork) }?;
    // SAFETY: the caller's promise; a hint about page size only.
    let _ = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxNoHugepage) };
    Ok(())
}

/// Allocates the pages of a range now, so that no thread faults on them later. Keeps their
/// contents.
///
/// # Errors
/// When there is no room for them; `Unsupported` for memory that `may_fault` before Linux 5.14,
/// where only a fault would reveal that.
///
/// # Safety
/// The range lies in a mapping that stays; unless it `may_fault`, no other thread uses it
/// meanwhile.
pub(crate) unsafe fn populate(start: *mut u8, len: usize, may_fault: bool) -> io::Result<()> {
    // SAFETY: the caller's promise; populating does not change contents.
    let populated = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxPopulateWrite) };
    match populated {
        Err(rustix::io::Errno::INVAL) if may_fault => Err(io::ErrorKind::Unsupported.into()),
        Err(rustix::io::Errno::INVAL) => {
            // SAFETY: the caller's promise.
            unsafe { touch(start, len) };
            Ok(())
        }
        other => Ok(other?),
    }
}

/// Before Linux 5.14: writes the first byte of each page again, with its own value.
///
/// # Safety
/// The range lies in a mapping, and no other thread uses it meanwhile.
unsafe fn touch(start: *mut u8, len: usize) {
    for offset in (0..len).step_by(4096) {
        // SAFETY: offset < len, so the address stays inside the caller's range.
        let address = unsafe { start.add(offset) };
        // SAFETY: the caller owns the range exclusively.
        let byte = unsafe { address.read_volatile() };
        // SAFETY: as above; volatile so that the fault happens.
        unsafe { address.write_volatile(byte) };
    }
}

/// Returns the pages of a range of a shared mapping to the system. They read as zero afterwards.
///
/// # Safety
/// The range lies in a shared file mapping that the caller owns, and no other thread uses it.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    Ok(unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxRemove) }?)
}

/// The system's name of the calling thread, at most 15 bytes.
pub(crate) fn current_thread_name() -> Option<String> {
    let mut room = [0_u8; 16];
    // SAFETY: writes at most 16 bytes, and a zero among them.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, room.as_mut_ptr()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&room).ok()?;
    (failed == 0 && !name.is_empty()).then(|| name.to_string_lossy().into_owned())
}

/// The system's name for this process: the name of its first thread.
pub(crate) fn process_name() -> Option<String> {
    profiler_sys::read_text("/proc/self/comm")
        .ok()
        .map(|name| name.trim_end_matches('\n').to_owned())
}

/// The number of this process's time namespace; 0 if it cannot be known.
pub(crate) fn time_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/time").map_or(0, |stat| stat.st_ino)
}

/// What the kernel knows about the error of the wall clock; `None` if it does not say, for example
/// in a sandbox. Changes nothing and needs no rights.
pub fn clock_error() -> Option<ClockError> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut about: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `timex` through the pointer, which is valid for one; with the
    // mode 0 it changes no clock.
    let answer = unsafe { libc::adjtimex(&raw mut about) };
    let nanos = |micros: libc::c_long| u64::try_from(micros).unwrap_or(0).saturating_mul(1_000);
    (answer >= 0).then(|| ClockError {
        is_synchronized: answer != libc::TIME_ERROR && about.status & libc::STA_UNSYNC == 0,
        most_ns: nanos(about.maxerror),
        estimated_ns: nanos(about.esterror),
    })
}

/// The longest thread name that the system keeps; a longer one is cut.
pub(crate) const THREAD_NAME_BYTES: usize = 15;

/// The number of the process that runs this, from the system and not from the C library: the child
/// of a `vfork` has another number than its parent, whose memory it uses.
pub(crate) fn running_process() -> u64 {
    // SAFETY: has no arguments, touches no memory and cannot fail.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) };
    u64::try_from(pid).unwrap_or(0)
}

/// Whether this process has other threads than the calling one. False if the system does not tell.
pub(crate) fn has_other_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(2).count() > 1)
}

/// When a process started, in clock ticks since boot; 0 if the process no longer exists.
pub(crate) fn process_start(pid: ProcessId) -> ProcessStart {
    let stat = ProcessStat::of(pid);
    // A zombie has ended, and its parent has not waited for it.
    let runs = stat.filter(|stat| !matches!(stat.state(), Some("Z" | "X")));
    let start = runs.and_then(|stat| stat.start());
    start.unwrap_or_default()
}

/// Reads this process's memory size repeatedly without opening a file each time.
#[derive(Debug)]
pub(crate) struct ResidentMemory(OwnFile);

impl ResidentMemory {
    pub(crate) fn open() -> Option<Self> {
        profiler_sys::open_file("/proc/self/statm").ok().map(Self)
    }

    /// The resident bytes now. Makes two system calls and allocates nothing.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let mut text = [0_u8; 128];
        let len = self.0.get().ok()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(super::page_size()))
    }
}

/// Makes every running thread of this process pass a full memory barrier.
///
/// Returns whether it did. In that case everything that a thread stored before its last read of an
/// atomic is visible here, and everything that we stored before is visible to each thread's next
/// read.
pub(crate) fn barrier_on_all_threads() -> bool {
    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    let membarrier = |command: libc::c_int| {
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    };
    let supported = membarrier(QUERY);
    supported > 0
        && supported & libc::c_long::from(PRIVATE_EXPEDITED) != 0
        && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
        && membarrier(PRIVATE_EXPEDITED) == 0
}

/// Makes the page at `page` read as zero in every child that any kind of fork makes.
///
/// # Safety
/// `page..page + len` are whole pages of private anonymous memory that hold only atomics for
/// which zero is a valid value.
pub(crate) unsafe fn wipe_on_fork(page: *mut u8, len: usize) -> bool {
    // SAFETY: the caller's promise; this process's own contents do not change.
    unsafe { rustix::mm::madvise(page.cast(), len, Advice::LinuxWipeOnFork) }.is_ok()
}

/// Registers functions that run around every `fork` made through the C library: before it, and
/// after it in the parent and in the child.
pub(crate) fn on_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> bool {
    // SAFETY: the handlers are static functions that only store to atomics.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) == 0 }
}

#[cfg(test)]
mod tests {
    use profiler_sys::allocated_bytes;

    use super::*;

    #[test]
    fn a_pool_file_is_sparse_and_cannot_change_its_size() {
        let file = create_pool_file(1 << 20).unwrap();
        assert_eq!(allocated_bytes(&file).unwrap(), 0);
        file.write_all_at(&[1], 8192).unwrap();
        assert_eq!(allocated_bytes(&file).unwrap(), 4096);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(1 << 21).is_err());
    }

    #[test]
    fn a_hole_gives_its_pages_back() {
        let file = create_pool_file(1 << 20).unwrap();
        file.write_all_at(&[1; 8192], 4096).unwrap();
        punch_hole(&file, 4096, 4096).unwrap();
        assert_eq!(allocated_bytes(&file).unwrap(), 4096);
    }

    #[test]
    fn touched_pages_keep_their_contents() {
        let mut memory = vec![7_u8; 3 * 4096];
        // SAFETY: the memory is this test's own.
        unsafe { touch(memory.as_mut_ptr(), memory.len()) };
        assert!(memory.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn start_times_tell_processes_apart() {
        let own = process_start(ProcessId::new(std::process::id()));
        assert!(own.get() > 0);
        assert_eq!(process_start(ProcessId::new(u32::MAX - 1)).get(), 0);
    }

    #[test]
    fn resident_memory_grows_with_touched_pages() {
        let memory = ResidentMemory::open().unwrap();
        let before = memory.bytes().unwrap();
        let touched = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(memory.bytes().unwrap() >= before + (60 << 20));
        drop(touched);
    }

    #[test]
    fn the_expedited_barrier_works_here() {
        assert!(barrier_on_all_threads());
    }
}
