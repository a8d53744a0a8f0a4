//! Things, each once, numbered in the order in which they came.
//!
//! A vector and an index of numbers, so that every thing is in memory once; a map would have it twice.

use std::hash::{BuildHasher, Hash, RandomState};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Interned<T> {
    all: Vec<T>,
    /// Open addressing; a number plus one, 0 is free. At most half is taken.
    index: Vec<u32>,
    /// Keyed, because things come from processes that may want them all to collide.
    hasher: RandomState,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { all: Vec::new(), index: vec![0; 64], hasher: RandomState::new() }
    }
}

impl<T: Copy + Eq + Hash> Interned<T> {
    /// All of them, in order of their numbers.
    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    /// The number of a thing, a new one if it was not seen before; `None` if it is one more than `most`.
    pub(super) fn intern(&mut self, item: T, most: usize) -> Option<u32> {
        let mut place = self.place(&item);
        loop {
            match self.index.get(place).copied().unwrap_or(0) {
                0 => break,
                taken if self.all.get(taken as usize - 1) == Some(&item) => return Some(taken - 1),
                _ => place = (place + 1) & (self.index.len() - 1),
            }
        }
        let id = u32::try_from(self.all.len()).ok().filter(|_| self.all.len() < most)?;
        self.all.push(item);
        if let Some(free) = self.index.get_mut(place) {
            *free = id + 1;
        }
        if self.all.len() * 2 > self.index.len() {
            self.grow();
        }
        Some(id)
    }

    fn place(&self, item: &T) -> usize {
        self.hasher.hash_one(item) as usize & (self.index.len() - 1)
    }

    fn grow(&mut self) {
        let len = self.index.len() * 2;
        self.index = Vec::new(); // the old one goes first
        self.index = vec![0; len];
        for (number, item) in (1_u32..).zip(&self.all) {
            let mut place = self.hasher.hash_one(item) as usize & (len - 1);
            while self.index.get(place).is_some_and(|taken| *taken != 0) {
                place = (place + 1) & (len - 1);
            }
            if let Some(free) = self.index.get_mut(place) {
                *free = number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_have_one_number_and_no_more_are_taken_than_fit() {
        let mut things = Interned::default();
        for round in 0..2 {
            for number in 0..10_000_u32 {
                assert_eq!(things.intern(number * 3, 5000), (number < 5000).then_some(number), "{round}");
            }
        }
        assert_eq!(things.all().len(), 5000);
    }
}
