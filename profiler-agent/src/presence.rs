//! In which process threads of the profiler may exist, and with which rights.
//!
//! Noted where such threads are about to be started; asked by [`crate::replaced`]. Invariant: reads
//! and writes atomics, and makes system calls.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::rights;

/// The process in which threads of the profiler may exist; 0 if there is none. In a forked child
/// without such threads, and in the child of a `vfork`, it is another process.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes that threads of the profiler may exist in this process from now on, with the rights of the
/// calling thread.
pub(crate) fn begin() {
    rights::note();
    OWNER.store(std::process::id(), Ordering::Release);
}

/// Notes that there are none any more.
pub(crate) fn end() {
    OWNER.store(0, Ordering::Release);
}

/// Whether threads of the profiler may exist in this process.
pub(crate) fn is_here() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner == std::process::id()
}
