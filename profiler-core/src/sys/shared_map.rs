//! A shared mapping of a whole file, which the system does not lock into memory.
//!
//! Called by `pool::mapping`. A program that has called `mlockall(MCL_FUTURE)` would otherwise have
//! all pages of the mapping at once: the whole memory limit of the session. So the addresses are
//! taken without access first, for which the system makes no pages, and the lock is removed.
//! Invariant: the mapping exists until this is dropped.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

#[derive(Debug)]
pub(crate) struct SharedMap {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread. This type does not access it.
unsafe impl Send for SharedMap {}
// SAFETY: as above.
unsafe impl Sync for SharedMap {}

impl SharedMap {
    /// Maps the first `len` bytes of `file` for reading and writing.
    ///
    /// # Errors
    /// Errors of `mmap` and `mprotect`.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        let (none, shared) = (ProtFlags::empty(), MapFlags::SHARED);
        // SAFETY: the system chooses addresses that nothing uses.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, none, shared, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = Self { start, len };
        // It fails only if the mapping is not locked, or has to stay so.
        // SAFETY: the mapping was just made; a lock does not change its contents.
        let _ = unsafe { rustix::mm::munlock(map.as_mut_ptr().cast(), len) };
        let both = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the mapping was just made, and nothing refers to it.
        unsafe { rustix::mm::mprotect(map.as_mut_ptr().cast(), len, both) }?;
        Ok(map)
    }

    pub(crate) const fn as_mut_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; whoever has a pointer into it holds this.
        let _ = unsafe { rustix::mm::munmap(self.as_mut_ptr().cast(), self.len) };
    }
}
