//! A forked child that begins to record anew.
//!
//! A forked child has a copy of its parent's memory without the pool, and only the thread that
//! called `fork`. It records nothing (`record::session_state`) until [`after_fork`] makes its
//! profiler like that of a process that has not recorded before. Everything that refers to the
//! parent's pool is forgotten and never dropped. Every lock that a thread of the parent may have
//! held is replaced, and with it the value that this thread may have been changing. All other state
//! consists of atomics, which are valid at any time.
//!
//! Invariants: nothing here waits or takes a lock of the profiler; the gate stays closed, and a
//! session of the child opens it. The lock of the groups' registry is not replaced: in a forked
//! child no thread waits long for it (`groups::registry`).

#![allow(unsafe_code)]

use std::sync::Mutex;

use super::{RUNTIME, exit, switches};
use crate::label::registry;
use crate::marker::span_number;
use crate::record::{local, session_state};
use crate::{sampler, sys};

/// Why a process cannot begin anew. Nothing has changed then.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AfterForkError {
    /// This is not a forked child, or it has begun anew already.
    #[error("this process was not forked from a process in which the profiler was started")]
    NotForked,
    /// The forked child has other threads than the calling one.
    #[error("this process has started threads since it was forked")]
    HasThreads,
    /// The thread that called `fork` was writing an entry.
    #[error("this process was forked within the serialisation of an entry")]
    WithinEntry,
}

/// Lets a forked child begin anew: from now on it may attach a pool and start a session. Entries
/// are recorded only after that.
///
/// # Errors
/// [`AfterForkError`].
///
/// # Safety
/// The allocator and the C library work in this process, although threads that existed at the fork
/// do not exist here. At the fork, no other thread was starting the profiler. The caller is not a
/// signal handler nor the serialisation of a payload, and no other process shares the memory of
/// this one.
pub unsafe fn after_fork() -> Result<(), AfterForkError> {
    if !session_state::is_forked_child() {
        return Err(AfterForkError::NotForked);
    }
    // The thread would go on writing to the parent's pool, where the child may map another one.
    if local::is_within_entry() {
        return Err(AfterForkError::WithinEntry);
    }
    if sys::has_other_threads() {
        return Err(AfterForkError::HasThreads);
    }
    forget_parent();
    session_state::begin_anew();
    Ok(())
}

/// Forgets the state of the parent process.
fn forget_parent() {
    exit::forget_parent();
    sys::forget_parent();
    sampler::forget_parent();
    sampler::asked_waits::forget_parent();
    registry::forget_parent();
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    crate::marker::crash::forget_parent();
    span_number::forget_parent();
    switches::forget_parent();
    local::forget_parent();
    RUNTIME.renew(Mutex::new(None));
}
