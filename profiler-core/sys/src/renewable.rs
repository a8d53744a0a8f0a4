//! Statics whose values a forked child replaces.
//!
//! In a forked child, a lock may be held forever: by a thread that exists only in the parent
//! process. The value behind the lock may then be half changed. A child that begins to record anew
//! (`session::after_fork`) replaces such values. It neither reads nor drops the old ones, because
//! they may refer to the parent's pool, which is not mapped in the child.
//!
//! Invariant: no value is ever freed, so a reference to an old value stays valid.

#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of a static. [`Renewable::renew`] replaces it.
#[derive(Debug)]
pub struct Renewable<T> {
    first: T,
    /// The value that has replaced `first`; null before.
    later: AtomicPtr<T>,
}

impl<T> Renewable<T> {
    /// Makes the static's first value.
    pub const fn new(first: T) -> Self {
        Self {
            first,
            later: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Replaces the value. The old one is never dropped.
    pub fn renew(&self, value: T) {
        let value = Box::into_raw(Box::new(value));
        self.later.store(value, Ordering::Release);
    }
}

impl<T> Deref for Renewable<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: null, or from `Box::into_raw` in `renew`. The box is never freed, and there are
        // only shared references to it.
        let later = unsafe { self.later.load(Ordering::Acquire).as_ref() };
        later.unwrap_or(&self.first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_new_lock_is_free_while_the_old_one_is_held() {
        static LOCK: Renewable<Mutex<u32>> = Renewable::new(Mutex::new(1));
        let mut held = LOCK.lock().unwrap();
        assert!(LOCK.try_lock().is_err());
        for value in [2, 3] {
            LOCK.renew(Mutex::new(value));
            assert_eq!(*LOCK.try_lock().unwrap(), value);
        }
        *held += 1;
        assert_eq!(*held, 2, "the old value is still there");
    }
}
