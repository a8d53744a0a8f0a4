//! A table of values by keys of `metrics`, which is never emptied.
//!
//! Used for each kind of metric and for names. A value is found by the hash that the key has.
//! Values live as long as the process, and there is a most number of them. A thread waits only for
//! another one that stores a pointer in the same place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Key;

/// A table with half as many values as it has places.
#[derive(Debug)]
pub(crate) struct KeyTable<T: 'static, const PLACES: usize> {
    places: [OnceLock<&'static Known<T>>; PLACES],
    made: AtomicUsize,
}

#[derive(Debug)]
struct Known<T> {
    key: Key,
    value: T,
}

impl<T: 'static, const PLACES: usize> KeyTable<T, PLACES> {
    pub(crate) const fn new() -> Self {
        Self {
            places: [const { OnceLock::new() }; PLACES],
            made: AtomicUsize::new(0),
        }
    }

    /// The value of a key; makes it if it is new. `None` if there are too many.
    #[inline]
    pub(crate) fn get_or_make(&self, key: &Key, make: impl FnOnce(Key) -> T) -> Option<&'static T> {
        let first = usize::try_from(key.get_hash() % PLACES as u64).unwrap_or(0);
        match self.places.get(first).and_then(OnceLock::get) {
            Some(known) if known.key == *key => Some(&known.value),
            _ => self.find_or_make(key, first, make),
        }
    }

    #[inline(never)]
    fn find_or_make(
        &self,
        key: &Key,
        first: usize,
        make: impl FnOnce(Key) -> T,
    ) -> Option<&'static T> {
        let mut make = Some(make);
        let mut made = None;
        let places = self.places.iter();
        for place in places.clone().skip(first).chain(places.take(first)) {
            let known = match place.get() {
                Some(known) => known,
                None => {
                    made = made.or_else(|| self.make(key, make.take()?));
                    let made = made?;
                    place.get_or_init(|| made)
                }
            };
            if known.key == *key {
                return Some(&known.value);
            }
        }
        None
    }

    /// Makes a value, if there are not too many.
    fn make(&self, key: &Key, make: impl FnOnce(Key) -> T) -> Option<&'static Known<T>> {
        let next = |made: usize| (made < PLACES / 2).then_some(made + 1);
        let counted = self
            .made
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.ok()?;
        let key = key.to_retained();
        let value = make(key.clone());
        Some(Box::leak(Box::new(Known { key, value })))
    }

    /// All values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.places
            .iter()
            .filter_map(|place| Some(&place.get()?.value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn boxed<T, const PLACES: usize>() -> &'static KeyTable<T, PLACES> {
        Box::leak(Box::new(KeyTable::new()))
    }

    fn key(name: u64, labels: &[u64]) -> Key {
        let labels: Vec<(String, String)> = labels
            .iter()
            .map(|label| (format!("label{label}"), "value".to_owned()))
            .collect();
        Key::from_parts(format!("name{name}"), &labels)
    }

    fn label_set() -> impl Strategy<Value = BTreeSet<u64>> {
        prop::collection::btree_set(0_u64..4, 0..3)
    }

    proptest! {
        #[test]
        fn a_key_has_one_value_whatever_the_order_of_its_labels(
            keys in prop::collection::vec((0_u64..4, label_set()), 0..60)
        ) {
            let table = boxed::<Key, 256>();
            for (name, labels) in keys {
                let labels: Vec<u64> = labels.into_iter().collect();
                let reversed: Vec<u64> = labels.iter().rev().copied().collect();
                let [one, other] = [key(name, &labels), key(name, &reversed)];
                let value = table.get_or_make(&one, |key| key).unwrap();
                prop_assert_eq!(value, &one);
                prop_assert!(std::ptr::eq(value, table.get_or_make(&other, |key| key).unwrap()));
            }
        }
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let table = boxed::<(), 64>();
        let made = (0..100).filter(|name| table.get_or_make(&key(*name, &[]), |_| ()).is_some());
        assert_eq!(made.count(), 32);
        assert!(table.get_or_make(&key(0, &[]), |_| ()).is_some());
        assert_eq!(table.iter().count(), 32);
    }

    #[test]
    fn threads_that_make_the_same_value_get_one() {
        let table = boxed::<AtomicU64, 1024>();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for name in 0..200 {
                        let value = table.get_or_make(&key(name, &[]), |_| AtomicU64::new(0));
                        value.unwrap().fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(table.iter().all(|value| value.load(Ordering::Relaxed) == 4));
    }
}
