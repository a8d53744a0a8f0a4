//! POSIX locks on files, and the processes that hold them.
//!
//! Used by the helper process, by the test `host_locks` and by figures, which check that the
//! profiler does not release locks of its host: closing any descriptor of a file releases all locks
//! that the process holds on the file.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::ensure;

/// What a lock covers.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// The whole file.
    File,
    /// The byte at this offset, which may be after the end of the file. Locks on different bytes do
    /// not conflict.
    Byte(i64),
}

fn request(kind: libc::c_int, extent: Extent) -> anyhow::Result<libc::flock> {
    let l_type = kind.try_into()?;
    let l_whence = libc::SEEK_SET.try_into()?;
    let (l_start, l_len) = match extent {
        Extent::File => (0, 0),
        Extent::Byte(offset) => (offset, 1),
    };
    Ok(libc::flock {
        l_type,
        l_whence,
        l_start,
        l_len,
        l_pid: 0,
    })
}

#[allow(unsafe_code)]
fn control(file: &File, command: libc::c_int, lock: &mut libc::flock) -> anyhow::Result<()> {
    // SAFETY: the kernel reads and writes one `flock` through the pointer, which is valid for it.
    let failed = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) };
    ensure!(failed == 0, "fcntl: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Takes an exclusive lock on the whole file.
///
/// # Errors
/// When another process holds a lock on the file.
pub fn take(file: &File) -> anyhow::Result<()> {
    control(
        file,
        libc::F_SETLK,
        &mut request(libc::F_WRLCK, Extent::File)?,
    )
}

/// Takes a shared lock, for which the file need not be writable.
///
/// # Errors
/// When another process holds a lock on the file.
pub fn take_shared(file: &File, extent: Extent) -> anyhow::Result<()> {
    control(file, libc::F_SETLK, &mut request(libc::F_RDLCK, extent)?)
}

/// Returns the number of another process that holds a lock on this part of the file. Releases all
/// locks that this process holds on the file.
///
/// # Errors
/// When the file cannot be opened.
pub fn holder(path: &Path, extent: Extent) -> anyhow::Result<Option<u32>> {
    let mut lock = request(libc::F_WRLCK, extent)?;
    control(&File::open(path)?, libc::F_GETLK, &mut lock)?;
    let is_held = libc::c_int::from(lock.l_type) != libc::F_UNLCK;
    Ok(if is_held {
        Some(u32::try_from(lock.l_pid)?)
    } else {
        None
    })
}
