//! The hash of the maps that are used for each sample, or for each node of an answer.
//!
//! The standard hash took a quarter of the reader's time. Invariant: the hash of each map has a
//! random key, because a hostile process may choose addresses and numbers of threads that collide.

use std::collections::HashMap;

pub(crate) use foldhash::fast::RandomState as FastHash;

/// A map with a fast hash.
pub(crate) type FastMap<K, V> = HashMap<K, V, FastHash>;

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn each_map_has_its_own_key() {
        let (one, other) = (FastHash::default(), FastHash::default());
        let differs = |number: u64| one.hash_one(number) != other.hash_one(number);
        assert!((0..100).all(differs), "the hash has no random key");
    }
}
