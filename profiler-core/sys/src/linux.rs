//! The system functions on Linux: identities of files, POSIX locks, the vDSO.
//!
//! Used within this crate, which exports some of them. Invariant: no function here panics.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::file_identity::FileIdentity;

/// Limit on the descriptors of this process.
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX)
}

/// Gives the calling thread a name, which the system cuts at 15 bytes.
pub(crate) fn name_current_thread(name: &CStr) {
    let _ = rustix::thread::set_name(name); // a sandbox may refuse it
}

/// The same file under a descriptor that cannot write.
///
/// # Errors
/// Errors of the system, for example without `/proc`.
pub(crate) fn read_only(file: &impl AsRawFd) -> io::Result<File> {
    File::open(format!("/proc/thread-self/fd/{}", file.as_raw_fd()))
}

/// Device and inode of the file that has this number. Uses `statx`, which a sandbox around a
/// recorder allows.
pub(crate) fn file_identity(number: i32) -> io::Result<FileIdentity> {
    let mut about = MaybeUninit::<libc::statx>::uninit();
    let path = c"".as_ptr();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the kernel checks the number, reads an empty string and writes one `statx` to a
    // buffer of that size.
    let failed = unsafe { libc::statx(number, path, flags, libc::STATX_INO, about.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a call that did not fail wrote it.
    let about = unsafe { about.assume_init() };
    let device = u64::from(about.stx_dev_major) << 32 | u64::from(about.stx_dev_minor);
    Ok(FileIdentity {
        device,
        inode: about.stx_ino,
    })
}

/// Whether closing this descriptor may release a POSIX lock of the process. The system does not
/// report a process its own locks, so this asks which lock is in the way of an "open file
/// description" lock, which has another owner. A lock of another process may hide one of this
/// process, so any POSIX lock counts.
pub(crate) fn may_release_lock(number: i32) -> bool {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (
        libc::F_WRLCK as libc::c_short,
        libc::SEEK_SET as libc::c_short,
    );
    // SAFETY: the kernel reads and writes one `flock` through the pointer, which is valid for one.
    let failed = unsafe { libc::fcntl(number, libc::F_OFD_GETLK, &raw mut lock) };
    // An "open file description" lock is reported with the number -1; closing does not release it.
    failed == 0 && lock.l_type != libc::F_UNLCK as libc::c_short && lock.l_pid != -1
}

/// The kernel's number of the calling thread. One system call.
pub fn current_thread_number() -> u64 {
    let raw = rustix::thread::gettid().as_raw_nonzero().get();
    u64::try_from(raw).unwrap_or(0)
}

/// Lets the calling thread wake at the end of a pause, and not up to 50 µs later, together with
/// timers of other threads. One system call. A system that refuses it has no effect.
pub fn wake_precisely() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Reads at a position, without moving the file's offset.
pub fn read_at(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, position)
}

/// Converts the bytes of a path.
pub fn path_of(name: &[u8]) -> PathBuf {
    <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name).into()
}

/// The image of the vDSO, which the kernel maps into every process, read from this process.
pub fn vdso_image() -> io::Result<Vec<u8>> {
    /// Limit on its size: far more than the actual size.
    const LARGEST: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let range = maps
        .lines()
        .filter(|line| line.ends_with("[vdso]"))
        .find_map(|line| {
            let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
            Some((
                u64::from_str_radix(start, 16).ok()?,
                u64::from_str_radix(end, 16).ok()?,
            ))
        });
    let (start, end) = range.ok_or(io::ErrorKind::NotFound)?;
    let len = end
        .checked_sub(start)
        .filter(|len| *len <= LARGEST)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut image = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::InvalidData)?];
    let memory = File::open("/proc/self/mem")?;
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut image, start)?;
    Ok(image)
}
