//! A callback at the end of a thread, which the C library does not call when the process exits.
//!
//! Used by everything that belongs to a thread of the host: its recorder, its name, its labels, its
//! stopwatch. A destructor of a Rust thread-local would also run inside `exit`, on the thread that
//! calls it, and the C library frees the record of that destructor there. A signal handler that
//! interrupted `malloc` may call `exit`, so neither may happen. The destructor of a key runs only
//! when its thread returns or calls `pthread_exit`, after the destructors of all thread-locals.
//!
//! Invariant: no thread waits for another one here, so a forked child finds no lock held.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use crate::sync::fixed::{AtomicU64, Ordering};

/// A function that runs at the end of each thread that has called [`ThreadEnd::arm`].
#[derive(Debug)]
pub struct ThreadEnd {
    /// The key's number plus one; 0 while there is none.
    key: AtomicU64,
    run: extern "C" fn(*mut c_void),
}

impl ThreadEnd {
    /// A callback that no thread runs yet.
    pub const fn new(run: extern "C" fn(*mut c_void)) -> Self {
        Self {
            key: AtomicU64::new(0),
            run,
        }
    }

    /// Makes the function run when the calling thread ends. If the thread is already running such
    /// callbacks, the function is called once more, up to `PTHREAD_DESTRUCTOR_ITERATIONS` times.
    /// False if the system has no key left; then the thread's data stays until the process ends.
    pub fn arm(&self) -> bool {
        let Some(key) = self.key() else { return false };
        // Any value but null; it is not read.
        let value = ptr::without_provenance(1);
        // SAFETY: the key was made by `make` and is never deleted.
        unsafe { libc::pthread_setspecific(key, value) == 0 }
    }

    fn key(&self) -> Option<libc::pthread_key_t> {
        match self.key.load(Ordering::Acquire) {
            0 => self.make(),
            key => libc::pthread_key_t::try_from(key - 1).ok(),
        }
    }

    #[cold]
    fn make(&self) -> Option<libc::pthread_key_t> {
        let mut key = 0;
        // SAFETY: writes into a key that lives through the call; `run` is a static function.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(self.run)) } != 0 {
            return None;
        }
        // The type of a key has 64 bits on macOS, and a sign on FreeBSD.
        #[allow(clippy::unnecessary_fallible_conversions)] // not on FreeBSD
        let Some(word) = u64::try_from(key).ok().and_then(|key| key.checked_add(1)) else {
            // SAFETY: made above, and no thread has stored a value under it.
            unsafe { libc::pthread_key_delete(key) };
            return None;
        };
        match self
            .key
            .compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Some(key),
            Err(first) => {
                // SAFETY: made above, and no thread has stored a value under it.
                unsafe { libc::pthread_key_delete(key) };
                libc::pthread_key_t::try_from(first - 1).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use test_support::threads::on_thread;

    use super::*;

    static ENDED: AtomicU64 = AtomicU64::new(0);
    static AT_END: ThreadEnd = ThreadEnd::new(count);

    extern "C" fn count(_: *mut c_void) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn an_armed_callback_runs_once_per_thread() {
        for asks in [1, 2, 0] {
            let thread = move || assert!((0..asks).all(|_| AT_END.arm()));
            on_thread(thread);
        }
        assert_eq!(ENDED.load(Ordering::Relaxed), 2);
    }
}
