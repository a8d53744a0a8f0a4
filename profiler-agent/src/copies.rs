//! The files of the agent's copies, which forked children load (`forks`).
//!
//! `forks/N` beside the library contains the copy for the N-th generation. Called before the
//! program begins or on a thread of the profiler. Invariant: a copy is loaded only if its path
//! still leads to the file that was there when this process began to follow forks, so a process
//! that has changed its root directory loads nothing of the new one. A change in the microseconds
//! between this check and the load is not noticed.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const FILE_NAME: &str = "libprofiler_agent.so";
/// The directory of the copies, beside the library.
const COPIES: &str = "forks";

/// The copy that the children of this process load.
static NEXT: NextCopy = NextCopy {
    path: AtomicPtr::new(ptr::null_mut()),
    device: AtomicU64::new(0),
    inode: AtomicU64::new(0),
};

struct NextCopy {
    /// Null if there is no copy, or if it was taken. Never freed.
    path: AtomicPtr<c_char>,
    device: AtomicU64,
    inode: AtomicU64,
}

/// Finds the next copy. Returns whether there is one. Allocates; what it allocates stays.
pub(crate) fn find_next() -> bool {
    let Some(path) = own_path().and_then(|path| next_copy(&path)) else {
        return false;
    };
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else {
        return false;
    };
    let Some((device, inode)) = identity(&path) else {
        return false;
    };
    NEXT.device.store(device, Ordering::Relaxed);
    NEXT.inode.store(inode, Ordering::Relaxed);
    NEXT.path.store(path.into_raw(), Ordering::Release);
    true
}

/// Whether the next copy is known, and was not taken in this process. Reads an atomic.
pub(crate) fn has_next() -> bool {
    !NEXT.path.load(Ordering::Acquire).is_null()
}

/// Takes the path of the next copy: from now on this process and its children load no other one.
/// `None` if it was taken, or if another file is in its place.
pub(crate) fn take_next() -> Option<&'static CStr> {
    let path = NEXT.path.swap(ptr::null_mut(), Ordering::AcqRel);
    if path.is_null() {
        return None;
    }
    // SAFETY: a text of `find_next`, which ends with a zero and is never freed.
    let path = unsafe { CStr::from_ptr(path) };
    let expected = (
        NEXT.device.load(Ordering::Relaxed),
        NEXT.inode.load(Ordering::Relaxed),
    );
    (identity(path) == Some(expected)).then_some(path)
}

/// Device and inode of a file.
fn identity(path: &CStr) -> Option<(u64, u64)> {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a zero, and the system writes into a local of that type.
    let failed = unsafe { libc::stat(path.as_ptr(), about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the system has written.
    let about = unsafe { about.assume_init() };
    (failed == 0).then_some((about.st_dev, about.st_ino))
}

/// The file from which this library was loaded.
fn own_path() -> Option<PathBuf> {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    let own = find_next as *const () as *const c_void;
    // SAFETY: the loader writes into a local of that type.
    let found = unsafe { libc::dladdr(own, about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the loader has written.
    let name = unsafe { about.assume_init() }.dli_fname;
    if found == 0 || name.is_null() {
        return None;
    }
    // SAFETY: a name of the loader, which stays as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    path.canonicalize().ok()
}

/// The copy that the children of a process with the library `own` load, if there is one.
fn next_copy(own: &Path) -> Option<PathBuf> {
    let directory = own.parent()?;
    let number: Option<u32> = directory
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    let is_copy = directory.parent().and_then(Path::file_name) == Some(COPIES.as_ref());
    let copies = match number.filter(|_| is_copy) {
        Some(number) => directory
            .parent()?
            .join((number.checked_add(1)?).to_string()),
        None => directory.join(COPIES).join("1"),
    };
    Some(copies.join(FILE_NAME)).filter(|copy| copy.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_has_its_copy_while_there_are_files() {
        let place = std::env::temp_dir().join(format!("agent-forks-{}", std::process::id()));
        let library = |directory: &str| place.join(directory).join(FILE_NAME);
        for directory in ["", "forks/1", "forks/2"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
            std::fs::write(library(directory), "").unwrap();
        }
        assert_eq!(next_copy(&library("")), Some(library("forks/1")));
        assert_eq!(next_copy(&library("forks/1")), Some(library("forks/2")));
        assert_eq!(next_copy(&library("forks/2")), None);
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn this_program_has_a_path() {
        assert!(own_path().is_some_and(|path| path.is_absolute()));
    }

    #[test]
    fn a_copy_is_taken_once_and_only_if_it_is_the_same_file() {
        let name = std::env::temp_dir().join(format!("agent-copy-{}", std::process::id()));
        std::fs::write(&name, "").unwrap();
        let path = CString::new(name.as_os_str().as_bytes()).unwrap();
        let (device, inode) = identity(&path).unwrap();
        let note = |inode| {
            NEXT.device.store(device, Ordering::Relaxed);
            NEXT.inode.store(inode, Ordering::Relaxed);
            let path = path.clone().into_raw();
            NEXT.path.store(path, Ordering::Release);
        };
        note(inode);
        assert!(has_next());
        assert_eq!(take_next(), Some(path.as_c_str()));
        assert_eq!(take_next(), None, "it was taken");
        note(inode + 1);
        assert_eq!(take_next(), None, "another file is in its place");
        assert!(!has_next());
        std::fs::remove_file(&name).unwrap();
    }
}
