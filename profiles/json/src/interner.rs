//! Stores each distinct value once, and numbers the values in order of first use.
//!
//! [`Interner`] holds values of a fixed size: frames, stacks, functions. [`ItemIndex`] finds a
//! value by its hash and holds numbers only, so every value is in memory once; a map would hold it
//! twice. The [string table](super::strings) and the processed format's tree of stacks use the
//! index alone: texts lie in one arena, and the tree has a faster hash.
//!
//! Invariants: equal values have equal numbers; numbers count up from 0 without gaps.

use std::hash::{BuildHasher, Hash, RandomState};

/// Finds the numbers of items by their hashes. The items are stored elsewhere.
#[derive(Debug, Default)]
pub struct ItemIndex {
    /// Open addressing with linear probing. A slot holds a number plus one, and 0 if it is free.
    /// The length is a power of two; at most three quarters are taken.
    slots: Vec<u32>,
}

impl ItemIndex {
    const FIRST_SLOTS: usize = 64;

    /// The number of the item that has this hash and for which `is_equal` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_equal: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut place = self.first_place(hash);
        while let Some(number) = self.slots.get(place)?.checked_sub(1) {
            if is_equal(number) {
                return Some(number);
            }
            place = self.next_place(place);
        }
        None
    }

    /// Adds item `number`, the next free number. `hash_of` returns the hashes of all items up to
    /// it.
    pub fn add(&mut self, number: u32, hash_of: impl Fn(u32) -> u64) {
        if (number as usize).saturating_mul(4) >= self.slots.len().saturating_mul(3) {
            let length = self.slots.len().saturating_mul(2).max(Self::FIRST_SLOTS);
            self.slots = Vec::new(); // frees the old memory before the larger one is allocated
            self.slots = vec![0; length];
            (0..number).for_each(|number| self.place(hash_of(number), number));
        }
        self.place(hash_of(number), number);
    }

    /// Bytes of memory that the index takes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mut place = self.first_place(hash);
        while let Some(slot) = self.slots.get_mut(place) {
            if *slot == 0 {
                *slot = number.saturating_add(1);
                return;
            }
            place = self.next_place(place);
        }
    }

    fn first_place(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    fn next_place(&self, place: usize) -> usize {
        place.wrapping_add(1) & self.slots.len().wrapping_sub(1)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Interner<T> {
    all: Vec<T>,
    index: ItemIndex,
    /// Keyed at random, because values come from processes that may try to make them collide.
    hasher: RandomState,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            index: ItemIndex::default(),
            hasher: RandomState::new(),
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// All values, in the order of their numbers.
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// Returns the number of a value, and adds the value if it is new. `None` if the value is new
    /// and there are `limit` values already.
    pub fn intern(&mut self, value: T, limit: usize) -> Option<u32> {
        let Self { all, index, hasher } = self;
        let is_equal = |number: u32| all.get(number as usize) == Some(&value);
        if let Some(known) = index.find(hasher.hash_one(&value), is_equal) {
            return Some(known);
        }
        let number = u32::try_from(all.len())
            .ok()
            .filter(|_| all.len() < limit)?;
        all.push(value);
        index.add(number, |number| {
            all.get(number as usize)
                .map_or(0, |value| hasher.hash_one(value))
        });
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_number_and_the_limit_is_kept() {
        let mut things = Interner::default();
        for round in 0..2 {
            for number in 0..10_000_u32 {
                assert_eq!(
                    things.intern(number * 3, 5000),
                    (number < 5000).then_some(number),
                    "round {round}"
                );
            }
        }
        assert_eq!(things.all().len(), 5000);
    }
}
