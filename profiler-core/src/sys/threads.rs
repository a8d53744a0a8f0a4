//! Quiet threads: named, and blind to every signal of the host.
//!
//! All threads of the profiler are made here. Invariant: a signal sent to the host process is
//! never delivered to one of them, so neither the host's handlers nor a sampler's signal can
//! interrupt the profiler's own waits.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of the profiler's own.
pub(crate) fn is_quiet_thread() -> bool {
    IS_QUIET.get()
}

/// Starts a thread with all signals blocked. The name is cut at 15 bytes by the system.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn_quiet<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A new thread inherits the mask of its maker, so the signals are blocked before its first
    // instruction; the maker's own mask is put back at once.
    let _masked = SignalsBlocked::new();
    let body = move || {
        IS_QUIET.set(true);
        body()
    };
    Builder::new().name(name.to_owned()).stack_size(256 * 1024).spawn(body)
}

/// Runs `body` on a thread with a stack of `stack` bytes and all signals blocked, and waits for its end. The inner
/// error is a panic of `body`. The name is cut at 15 bytes by the system.
///
/// # Errors
/// When the system has no thread left; then `body` did not run.
pub fn run_quiet<T: Send>(
    name: &str,
    stack: usize,
    body: impl FnOnce() -> T + Send,
) -> io::Result<std::thread::Result<T>> {
    let body = || {
        IS_QUIET.set(true);
        body()
    };
    std::thread::scope(|scope| {
        let masked = SignalsBlocked::new();
        let thread = Builder::new().name(name.to_owned()).stack_size(stack).spawn_scoped(scope, body)?;
        drop(masked);
        Ok(thread.join())
    })
}

struct SignalsBlocked(Option<libc::sigset_t>);

impl SignalsBlocked {
    fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises the set it is given.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both pointers are to sets that live through the call.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) };
        if failed != 0 {
            return Self(None);
        }
        // SAFETY: on success the old mask has been written.
        Self(Some(unsafe { old.assume_init() }))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            // SAFETY: `old` is a mask that the system gave us.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_blocks_all_signals_and_the_maker_does_not() {
        let blocked = || {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: a null new mask only reads the current one into `set`.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
            // SAFETY: written by the call above, which cannot fail with these arguments.
            unsafe { libc::sigismember(set.as_ptr(), libc::SIGURG) == 1 }
        };
        let inside = spawn_quiet("quiet", blocked).unwrap().join().unwrap();
        assert!(inside);
        assert!(!blocked());
    }
}
