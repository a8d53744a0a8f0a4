//! Labels, counters and groups that C refers to by pointers.
//!
//! Each is made once per name and lives as long as the process, so a pointer to it is always valid.
//! Invariants: their number is bounded; a call waits for another thread only for about a
//! millisecond, because in a forked child that thread may not exist.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Most values of one kind. Each takes some hundred bytes.
const MAX: usize = 4096;
/// How often a thread tries to take the lock, and lets other threads run in between.
const TRIES: u32 = 1000;

/// The values of one kind, by their names.
pub(crate) struct Handles<T: 'static>(Mutex<Known<T>>);

type Known<T> = BTreeMap<&'static str, &'static T>;

impl<T> Handles<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The value of this name; makes it if it is new. `None` if there are too many, or if another
    /// thread holds the lock.
    pub(crate) fn get_or_make(
        &self,
        name: &str,
        make: impl FnOnce(&'static str) -> T,
    ) -> Option<&'static T> {
        let mut known = self.lock()?;
        if let Some(found) = known.get(name).copied() {
            return Some(found);
        }
        if known.len() >= MAX {
            return None;
        }
        let name: &'static str = Box::leak(Box::<str>::from(name));
        let made: &'static T = Box::leak(Box::new(make(name)));
        known.insert(name, made);
        Some(made)
    }

    fn lock(&self) -> Option<MutexGuard<'_, Known<T>>> {
        (0..TRIES).find_map(|_| match self.0.try_lock() {
            Ok(known) => Some(known),
            Err(TryLockError::Poisoned(known)) => Some(known.into_inner()),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                None
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_value() {
        let handles = Handles::new();
        let first = handles.get_or_make("a", str::len).unwrap();
        let again = handles
            .get_or_make("a", |_| unreachable!("it is known"))
            .unwrap();
        assert!(std::ptr::eq(first, again));
        assert_eq!(handles.get_or_make("long", str::len), Some(&4));
    }

    #[test]
    fn their_number_is_bounded() {
        let handles = Handles::new();
        for number in 0..MAX {
            assert!(handles.get_or_make(&number.to_string(), str::len).is_some());
        }
        assert_eq!(handles.get_or_make("one more", str::len), None);
        assert_eq!(handles.get_or_make("7", str::len), Some(&1));
    }

    #[test]
    fn a_lock_that_is_never_released_is_not_waited_for() {
        let handles = Handles::new();
        let held = handles.lock().unwrap();
        assert_eq!(handles.get_or_make("a", str::len), None);
        drop(held);
        assert_eq!(handles.get_or_make("a", str::len), Some(&1));
    }
}
