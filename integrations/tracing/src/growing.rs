//! A table that gets further tables of the same kind when it is full.
//!
//! Used by `clone_counts` and `span_map`. Lock-free. Invariants: a table is never freed, and it is
//! in use after all tables before it, so a thread that looks through the tables until the first
//! missing one sees all that were made before.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A table, and at most `MAX` further ones.
#[derive(Debug)]
pub(crate) struct Growing<T: 'static, const MAX: usize> {
    first: T,
    /// Null, or from `Box::into_raw`.
    later: [AtomicPtr<T>; MAX],
}

impl<T: Sync + 'static, const MAX: usize> Growing<T, MAX> {
    pub(crate) const fn new(first: T) -> Self {
        Self {
            first,
            later: [const { AtomicPtr::new(ptr::null_mut()) }; MAX],
        }
    }

    /// The first result of `look` in the tables.
    #[inline]
    pub(crate) fn find<'a, R>(&'a self, look: impl Fn(&'a T) -> Option<R>) -> Option<R> {
        if let Some(found) = look(&self.first) {
            return Some(found);
        }
        let made = self.later.iter().map_while(loaded);
        made.into_iter().find_map(look)
    }

    /// The first result of `look` in the tables; makes a further table if there is none. `None` if
    /// there are too many tables.
    pub(crate) fn find_or_grow<'a, R>(
        &'a self,
        look: impl Fn(&'a T) -> Option<R>,
        make: impl Fn() -> Option<Box<T>>,
    ) -> Option<R> {
        if let Some(found) = look(&self.first) {
            return Some(found);
        }
        for place in &self.later {
            let table = match loaded(place) {
                Some(table) => table,
                None => grow(place, make()?)?,
            };
            if let Some(found) = look(table) {
                return Some(found);
            }
        }
        None
    }
}

/// Puts a new table into a place, unless another thread was faster. Returns the table there.
#[cold]
fn grow<T>(place: &AtomicPtr<T>, table: Box<T>) -> Option<&T> {
    let made = Box::into_raw(table);
    let placed = place.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
    if placed.is_err() {
        // SAFETY: from `Box::into_raw` above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
    loaded(place)
}

#[inline]
fn loaded<T>(place: &AtomicPtr<T>) -> Option<&T> {
    // SAFETY: null, or from `Box::into_raw` in `grow`, never freed after it is in a place, and only
    // shared references to it exist.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_full_table_is_followed_by_a_further_one_up_to_the_bound() {
        let tables: Growing<AtomicU32, 2> = Growing::new(AtomicU32::new(0));
        let claim = |value: u32| {
            let look = move |table: &AtomicU32| {
                let claimed = table.compare_exchange(0, value, Ordering::SeqCst, Ordering::SeqCst);
                claimed.ok()
            };
            tables.find_or_grow(look, || Some(Box::new(AtomicU32::new(0))))
        };
        assert_eq!([1, 2, 3].map(claim), [Some(0); 3]);
        assert_eq!(claim(4), None);
        let find =
            |value| tables.find(|table| (table.load(Ordering::SeqCst) == value).then_some(()));
        assert_eq!([1, 3, 4].map(find), [Some(()), Some(()), None]);
    }
}
