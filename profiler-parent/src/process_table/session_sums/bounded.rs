//! Sums by key, for a limited number of keys; all further keys share one sum.
//!
//! Used by the sums of a session. Pure. Invariants: a key that has a sum of its own keeps it, so no
//! number moves from one sum to another; a shown number is never less than it was shown before,
//! also if the present numbers of a process cannot be read for a while.

use std::collections::BTreeMap;

/// Numbers that are added up.
pub(crate) trait Sum: Clone + Default {
    /// Combines each number with the same number of `other`.
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64);

    /// Adds each number.
    fn add(&mut self, other: &Self) {
        self.combine(other, u64::saturating_add);
    }

    /// Raises each number to that of `other`, if that is greater.
    fn raise_to(&mut self, other: &Self) {
        self.combine(other, u64::max);
    }
}

/// What a sum is about.
pub(crate) trait SumKey: Clone + Ord {
    /// Whether it has the name of the sum of all further keys.
    fn is_other(&self) -> bool;
}

/// The parts of one sum.
#[derive(Clone, Debug, Default)]
struct SumParts<S> {
    /// The final numbers of what is gone.
    gone: S,
    /// The numbers of what is present, at the latest reading.
    present: S,
    /// The numbers that were shown last.
    shown: S,
}

impl<S: Sum> SumParts<S> {
    fn show(&mut self) -> S {
        let mut now = self.gone.clone();
        now.add(&self.present);
        self.present = S::default();
        self.shown.raise_to(&now);
        self.shown.clone()
    }
}

/// Sums by key. See the head of this file.
#[derive(Debug)]
pub(crate) struct BoundedSums<K, S> {
    most: usize,
    own: BTreeMap<K, SumParts<S>>,
    other: SumParts<S>,
    has_other: bool,
}

/// What is shown of all sums.
#[derive(Clone, Debug)]
pub(crate) struct ShownSums<K, S> {
    /// Sums of their own, in the order of their keys.
    pub(crate) own: Vec<(K, S)>,
    /// The sum of all further keys, if there is one.
    pub(crate) other: Option<S>,
    /// Present rows that are in that sum.
    pub(crate) rows_in_other: u64,
}

impl<K: SumKey, S: Sum> BoundedSums<K, S> {
    /// No sums, and at most `most` keys with a sum of their own.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            own: BTreeMap::new(),
            other: SumParts::default(),
            has_other: false,
        }
    }

    /// Adds the final numbers of something that is gone.
    pub(crate) fn add_gone(&mut self, key: &K, sum: &S) {
        self.parts_of(key).0.gone.add(sum);
    }

    /// The numbers of what is gone and of what is `present`, together. Each of both is counted
    /// once: nothing that is present is among what is gone. If there are too many new keys, the
    /// first of them get a sum of their own.
    pub(crate) fn show<'a>(
        &mut self,
        present: impl IntoIterator<Item = (&'a K, &'a S)>,
    ) -> ShownSums<K, S>
    where
        K: 'a,
        S: 'a,
    {
        let mut rows_in_other = 0;
        for (key, sum) in present {
            let (parts, is_own) = self.parts_of(key);
            parts.present.add(sum);
            rows_in_other += u64::from(!is_own);
        }
        let own = self.own.iter_mut();
        let own = own.map(|(key, parts)| (key.clone(), parts.show()));
        let own = own.collect();
        let other = self.other.show();
        ShownSums {
            own,
            other: self.has_other.then_some(other),
            rows_in_other,
        }
    }

    /// The sum to which a key belongs, and whether it is the key's own.
    fn parts_of(&mut self, key: &K) -> (&mut SumParts<S>, bool) {
        let has_room = self.own.len() < self.most;
        if key.is_other() || !(has_room || self.own.contains_key(key)) {
            self.has_other = true;
            return (&mut self.other, false);
        }
        (self.own.entry(key.clone()).or_default(), true)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Count(u64);

    impl Sum for Count {
        fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
            self.0 = with(self.0, other.0);
        }
    }

    impl SumKey for u32 {
        fn is_other(&self) -> bool {
            *self == 0
        }
    }

    fn show(sums: &mut BoundedSums<u32, Count>, present: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let present: Vec<_> = present
            .iter()
            .map(|(key, sum)| (*key, Count(*sum)))
            .collect();
        let shown = sums.show(present.iter().map(|(key, sum)| (key, sum)));
        let own = shown.own.into_iter().map(|(key, sum)| (key, sum.0));
        own.chain(shown.other.map(|other| (0, other.0))).collect()
    }

    #[test]
    fn what_is_gone_stays_in_its_sum() {
        let mut sums = BoundedSums::new(2);
        assert_eq!(show(&mut sums, &[(1, 5), (2, 1)]), [(1, 5), (2, 1)]);
        sums.add_gone(&1, &Count(6));
        assert_eq!(show(&mut sums, &[(2, 2)]), [(1, 6), (2, 2)]);
        assert_eq!(show(&mut sums, &[(1, 3), (2, 2)]), [(1, 9), (2, 2)]);
    }

    #[test]
    fn a_number_that_cannot_be_read_for_a_while_stays() {
        let mut sums = BoundedSums::new(2);
        show(&mut sums, &[(1, 5)]);
        assert_eq!(show(&mut sums, &[]), [(1, 5)]);
        assert_eq!(show(&mut sums, &[(1, 4)]), [(1, 5)]);
        assert_eq!(show(&mut sums, &[(1, 7)]), [(1, 7)]);
    }

    #[test]
    fn further_keys_and_the_key_named_like_them_share_one_sum() {
        let mut sums = BoundedSums::new(2);
        let present = [(7, 1), (3, 2), (1, 4), (0, 8), (3, 16)];
        assert_eq!(show(&mut sums, &present), [(3, 18), (7, 1), (0, 12)]);
        sums.add_gone(&1, &Count(4));
        assert_eq!(show(&mut sums, &[]), [(3, 18), (7, 1), (0, 12)]);
        let shown = sums.show([(&9, &Count(1)), (&3, &Count(18))]);
        assert_eq!(shown.rows_in_other, 1);
    }

    proptest! {
        /// Processes count up, end, and are missing in some readings.
        #[test]
        fn no_shown_number_falls_and_the_last_reading_has_everything(
            steps in prop::collection::vec((1_u32..6, 0_u64..9, any::<bool>(), any::<bool>()), 1..60),
        ) {
            let mut sums = BoundedSums::new(3);
            let mut present = BTreeMap::<u32, u64>::new();
            let mut before = BTreeMap::new();
            let mut all = 0;
            for (key, more, ends, is_read) in steps {
                *present.entry(key).or_default() += more;
                all += more;
                if ends {
                    let last = present.remove(&key).unwrap_or_default();
                    sums.add_gone(&key, &Count(last));
                }
                let read = present.iter().filter(|(read, _)| is_read || **read != key);
                let read: Vec<(u32, u64)> = read.map(|(key, sum)| (*key, *sum)).collect();
                let now: BTreeMap<_, _> = show(&mut sums, &read).into_iter().collect();
                prop_assert!(now.len() <= 4);
                for (key, shown) in &before {
                    prop_assert!(now.get(key) >= Some(shown));
                }
                before = now;
            }
            let read: Vec<(u32, u64)> = present.into_iter().collect();
            let last: u64 = show(&mut sums, &read).iter().map(|(_, sum)| sum).sum();
            prop_assert_eq!(last, all);
        }
    }
}
