//! The portable fallback: no POSIX locks are known. Has the same functions as `linux`.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::path::PathBuf;

use crate::file_identity::FileIdentity;

/// A number of open files that this process may have on every system.
pub const fn descriptor_limit() -> u64 {
    256
}

/// Gives the calling thread a name where the system has a call for it.
pub(crate) fn name_current_thread(name: &CStr) {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(name); // a sandbox may refuse it
    #[cfg(target_vendor = "apple")]
    // SAFETY: reads a text that ends with a zero.
    unsafe {
        libc::pthread_setname_np(name.as_ptr());
    }
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    let _ = name;
}

/// The same file, still writable: without a name it cannot be opened for reading only.
///
/// # Errors
/// When no descriptor is left.
pub(crate) fn read_only(file: &File) -> io::Result<File> {
    file.try_clone()
}

/// Device and inode of the file that has this number.
pub(crate) fn file_identity(number: i32) -> io::Result<FileIdentity> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel checks the number, and writes one `stat` to a buffer of that size.
    let failed = unsafe { libc::fstat(number, stat.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a call that did not fail wrote it.
    let stat = unsafe { stat.assume_init() };
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)] // their types differ between systems
    Ok(FileIdentity {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
    })
}

/// Always false: the locks of a process cannot be known here.
pub(crate) fn may_release_lock(_number: i32) -> bool {
    false
}

/// A number of the calling thread, since there is no portable system number: threads are counted in
/// the order in which they ask. Like a system's number, it fits into 32 bits; unlike one, it is
/// never the number of the process, which would mark the main thread.
pub fn current_thread_number() -> u64 {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(1 << 31);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    if OWN.get() == 0 {
        OWN.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    OWN.get()
}

/// Has no effect on other systems.
pub const fn wake_precisely() {}

/// Reads at a position, without moving the file's offset.
#[cfg(unix)]
pub fn read_at(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, room, position)
}

/// Reads at a position. Moves the offset of this handle, which is not the child's.
#[cfg(windows)]
pub fn read_at(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, room, position)
}

/// Converts the bytes of a path.
pub fn path_of(name: &[u8]) -> PathBuf {
    String::from_utf8_lossy(name).into_owned().into()
}

/// Other systems have no vDSO.
pub fn vdso_image() -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}
