//! A forked child of a process that has begun: it begins anew, and joins the session by itself.
//!
//! Called by the host through [`after_fork`]. `profiler_core::session::after_fork` makes the state
//! of the profiler new; after that the process is like any other that joins (`connect`, `join`).
//! Invariant: a call that is not in such a child, or that comes too early or too late, changes
//! nothing.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use profiler_core::session::{self, AfterForkError};

use crate::connect::{self, Status};
use crate::init::{self, JOIN_WAIT};
use crate::verbose::tell_if_off;
use crate::{io_thread, own_threads, shutdown};

/// The process that has begun anew after a fork; 0 before. In a forked child, the process from
/// which it was forked.
static ANEW: AtomicU32 = AtomicU32::new(0);

/// Begins to record in a forked child, such as a worker of a server that forks its workers.
///
/// A forked child of a process that has called [`init`](crate::init) does not record: it has no
/// access to its parent's memory. This function lets it join the session by the address in its
/// environment, like any process of the tree (see [`init`](crate::init)). It is then a process of
/// its own in the profile, with the process that forked it as its parent. What it did before the
/// call is not recorded, and neither are the labels, scopes and spans that were open at the fork.
///
/// Call it in the forked child early: before the child starts a thread, enters a sandbox, changes
/// its user or closes its descriptors. A server that listens for requests calls it before the first
/// one.
///
/// ```no_run
/// profiler_child::init();
/// for _ in 0..4 {
///     // SAFETY: the process has no threads of its own, so the forked process may do everything.
///     if unsafe { libc::fork() } == 0 {
///         // SAFETY: as above; the profiler's own threads hold nothing that this process needs.
///         unsafe { profiler_child::after_fork() };
///         profiler_child::core::marker!("worker is up");
///         std::process::exit(0);
///     }
/// }
/// ```
///
/// # Result
/// As that of [`init`](crate::init); whatever it is, the process runs on unharmed. With
/// `MULTIPROCESS_PROFILER_VERBOSE=1`, the reason for which it does not record is printed.
///
/// - [`Status::NoParent`]: the environment names no session. A child that was started with
///   `Session::spawn_untrusted` has no address, so its workers cannot join.
/// - [`Status::AlreadyDone`]: the function was called before in this process.
/// - [`Status::Off`] with [`InitError::AfterFork`](crate::InitError::AfterFork): this is not a
///   forked child of a process that has called [`init`](crate::init), or it has threads already, or
///   the fork was made within the serialisation of a payload. Nothing has changed, and a later call
///   may succeed.
/// - [`Status::Off`] with another error: the session did not let the process join.
///
/// If the process that forked this one has called [`init`](crate::init) without effect, for example
/// because the session was full, this function does the same as [`init`](crate::init).
///
/// A session's own process may fork workers, too. They join if the environment has the variables of
/// `Session::environment`. They must not use or drop their copy of the `Session`: end them with
/// [`std::process::exit`] or `_exit`.
///
/// # Cost
/// That of a process that joins: usually about a millisecond, and at most [`JOIN_WAIT`] until the
/// session answers. The copies that the child has of its parent's state are never freed: some
/// hundred kilobytes, which the system shares with the parent. Before Linux 5.9, the child also
/// inherits the descriptors of the parent's profiler. A fork costs nothing more than without this
/// function.
///
/// # Safety
/// The function allocates, starts threads, opens files and reads the environment. The caller
/// promises that this works in this process, although the threads of the forking process do not
/// exist here:
///
/// - if the process that forked had no threads but those of the profiler, the promise holds, unless
///   the program has an allocator of its own that does not work in forked children;
/// - otherwise no other thread held, at the fork, a lock that these need. The allocators of glibc
///   and musl are usable in forked children. The locks of the environment ([`std::env::set_var`])
///   and of the dynamic linker (`dlopen`) are not, if a thread held them.
///
/// At the fork, no other thread was in [`init`](crate::init), and no thread of the profiler began to
/// record: fork when `init` has returned another status than [`Status::Joining`], or once
/// [`session::is_active`] is true. The function is not called in a signal handler, in the
/// serialisation of a payload, nor in the child of a `vfork`.
pub unsafe fn after_fork() -> Status {
    // SAFETY: the caller's promise.
    unsafe { after_fork_within(JOIN_WAIT) }
}

/// Like [`after_fork`], with another limit on the wait for the session: many workers that are
/// forked at once wait for each other there.
///
/// # Safety
/// As for [`after_fork`].
pub unsafe fn after_fork_within(patience: Duration) -> Status {
    // SAFETY: the caller's promise.
    let status = unsafe { after_fork_silently(patience) };
    tell_if_off(&status);
    status
}

/// Like [`after_fork_within`], and prints nothing.
///
/// # Safety
/// As for [`after_fork`].
pub unsafe fn after_fork_silently(patience: Duration) -> Status {
    // SAFETY: the caller's promise.
    match unsafe { session::after_fork() } {
        Ok(()) => {
            shutdown::forget_parent();
            own_threads::forget_parent();
            io_thread::forget_parent();
            connect::begin_anew();
        }
        Err(AfterForkError::NotForked) if has_begun_anew() => return Status::AlreadyDone,
        // The process that forked this one has begun without effect.
        Err(AfterForkError::NotForked) if connect::parent_has_begun() && connect::begin() => {
            shutdown::forget_parent();
            own_threads::forget_parent();
            io_thread::forget_parent();
        }
        Err(error) => return Status::Off(error.into()),
    }
    ANEW.store(std::process::id(), Ordering::Release);
    init::join(patience)
}

fn has_begun_anew() -> bool {
    ANEW.load(Ordering::Acquire) == std::process::id()
}
