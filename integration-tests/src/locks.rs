//! POSIX locks of files, and who holds them. Closing any descriptor of a file releases all locks
//! that its process holds on it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::ensure;

/// What a lock covers.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// The whole file.
    File,
    /// The byte at this offset, which may be behind the end. Processes that lock different bytes do
    /// not see each other.
    Byte(i64),
}

fn request(kind: libc::c_int, extent: Extent) -> anyhow::Result<libc::flock> {
    let (l_type, l_whence) = (kind.try_into()?, libc::SEEK_SET.try_into()?);
    let (l_start, l_len) = match extent {
        Extent::File => (0, 0),
        Extent::Byte(offset) => (offset, 1),
    };
    Ok(libc::flock { l_type, l_whence, l_start, l_len, l_pid: 0 })
}

#[allow(unsafe_code)]
fn control(file: &File, command: libc::c_int, lock: &mut libc::flock) -> anyhow::Result<()> {
    // SAFETY: the kernel reads and writes one `flock` through the pointer, which is valid for one.
    let failed = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) };
    ensure!(failed == 0, "fcntl: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Takes an exclusive lock on the whole file.
///
/// # Errors
/// When another process has one.
pub fn take(file: &File) -> anyhow::Result<()> {
    control(file, libc::F_SETLK, &mut request(libc::F_WRLCK, Extent::File)?)
}

/// Takes a shared lock, for which the file need not be writable.
///
/// # Errors
/// When another process has one.
pub fn take_shared(file: &File, extent: Extent) -> anyhow::Result<()> {
    control(file, libc::F_SETLK, &mut request(libc::F_RDLCK, extent)?)
}

/// Returns which other process holds a lock on this part of the file. Releases all locks of this
/// process on the file.
///
/// # Errors
/// When the file cannot be opened.
pub fn holder(path: &Path, extent: Extent) -> anyhow::Result<Option<u32>> {
    let mut lock = request(libc::F_WRLCK, extent)?;
    control(&File::open(path)?, libc::F_GETLK, &mut lock)?;
    let is_held = libc::c_int::from(lock.l_type) != libc::F_UNLCK;
    Ok(if is_held { Some(u32::try_from(lock.l_pid)?) } else { None })
}
