//! The end of the process: the code that may run inside `exit`.
//!
//! `exit` can be called anywhere: in a signal handler that interrupted `malloc` or a thread that
//! holds a lock of the profiler, or in the child of a `vfork`, which uses its parent's memory. So
//! [`close_at_exit`] reads and writes atomics and makes one system call, `getpid`. It takes no
//! lock, waits for nothing, allocates nothing and uses no thread-local. The profiler's threads run
//! until the system ends the process. The system tells the parent that the process has ended.
//!
//! Invariant: the words behind [`LIFE`] stay mapped for the life of the process that [`OWNER`]
//! names.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use crate::manager::ChunkManager;
use crate::pool::layout::{Life, header as at};
use crate::record::session_state;
use crate::sync::AtomicU64;
use crate::sync::fixed::{self, Ordering};
use crate::sys;

/// The word of the attached pool that holds its life cycle; null while no pool is attached.
static LIFE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The number of the process that attached the pool.
static OWNER: fixed::AtomicU64 = fixed::AtomicU64::new(0);

/// Keeps the pool mapped, for [`close_at_exit`].
pub(super) fn prepare(manager: &Arc<ChunkManager>) {
    let kept: &'static Arc<ChunkManager> = Box::leak(Box::new(Arc::clone(manager)));
    if let Some(life) = kept.pool().header_word(at::LIFE) {
        OWNER.store(sys::running_process(), Ordering::Relaxed);
        LIFE.store(ptr::from_ref(life).cast_mut(), Ordering::Release);
    }
}

/// In a forked child that begins anew: forgets the parent's pool, which is not mapped here.
pub(super) fn forget_parent() {
    LIFE.store(ptr::null_mut(), Ordering::Release);
}

/// Marks the process as one that writes no more entries, and stops recording permanently. Unlike
/// [`close_pool`](super::close_pool) it may be called by a signal handler and inside `exit`.
///
/// Entries that other threads are writing are completed. Does nothing in a forked child or in the
/// child of a `vfork`, whose exit does not end this process.
#[allow(unsafe_code)]
pub fn close_at_exit() {
    if !is_owner() {
        return;
    }
    session_state::close();
    // SAFETY: null, or a word of a pool that `prepare` keeps mapped for the life of the process.
    if let Some(life) = unsafe { LIFE.load(Ordering::Acquire).as_ref() } {
        life.store(Life::Closed as u64, Ordering::Release);
    }
}

/// Calls the functions that run around a fork in the forking process. For tests only.
#[doc(hidden)]
pub fn pass_through_fork_handlers() {
    session_state::pass_through_fork_handlers();
}

/// Whether this is the process that attached the pool. The gate is checked first for a child in a
/// new namespace, which may have the same number.
pub(super) fn is_owner() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    // A process that does not record makes no system call here, which a filter may forbid.
    owner != 0 && !session_state::is_forked_child() && owner == sys::running_process()
}
