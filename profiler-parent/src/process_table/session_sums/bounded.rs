//! Sums by key over many sources, for a limited number of keys; all further keys share one sum.
//!
//! Used by the sums of a session; a source is a process, or a pusher. Pure. Invariants: a key that
//! has a sum of its own keeps it, so no number moves from one sum to another; the numbers of a
//! source never fall, also if some of them, or all, cannot be read for a while or at its end.
//! Memory is bounded by the number of present sources and keys.

use std::collections::BTreeMap;

/// Numbers that are added up.
pub trait Sum: Clone + Default {
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
pub trait SumKey: Clone + Ord {
    /// Whether it has the name of the sum of all further keys.
    fn is_other(&self) -> bool;
}

/// The place of a sum. [`OTHER_PLACE`] is that of all further keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SumPlace(usize);

const OTHER_PLACE: SumPlace = SumPlace(0);

/// The numbers of one source, by the place of their sum.
type SourceSums<S> = BTreeMap<SumPlace, S>;

/// Sums by key `K` over sources `P`. See the head of this file.
#[derive(Debug)]
pub struct BoundedSums<P, K, S> {
    most: usize,
    /// The keys that have a sum of their own.
    own: BTreeMap<K, SumPlace>,
    /// The final numbers of the sources that are gone, by the place of their sum.
    gone: SourceSums<S>,
    /// Of each number of a present source the greatest that was read.
    present: BTreeMap<P, SourceSums<S>>,
    has_other: bool,
}

/// What is shown of all sums.
#[derive(Clone, Debug)]
pub struct ShownSums<K, S> {
    /// Sums of their own, in the order of their keys.
    pub own: Vec<(K, S)>,
    /// The sum of all further keys, if there is one.
    pub other: Option<S>,
}

impl<P: Clone + Ord, K: SumKey, S: Sum> BoundedSums<P, K, S> {
    /// No sums, and at most `most` keys with a sum of their own.
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            own: BTreeMap::new(),
            gone: BTreeMap::new(),
            present: BTreeMap::new(),
            has_other: false,
        }
    }

    /// Gives keys sums of their own, in this order, as long as there are any. A key that is read
    /// without one gets one in the same way.
    pub(crate) fn give_places<'a>(&mut self, keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        for key in keys {
            self.place_of(key);
        }
    }

    /// Shows a sum of all further keys from now on, also without such keys.
    pub(crate) const fn show_other(&mut self) {
        self.has_other = true;
    }

    /// Takes the present numbers of a source. Rows with equal keys are added up. Returns the number
    /// of rows that are in the sum of all further keys.
    pub fn read<'a>(&mut self, source: &P, rows: impl IntoIterator<Item = (&'a K, &'a S)>) -> u64
    where
        K: 'a,
        S: 'a,
    {
        let mut now = SourceSums::new();
        let mut in_other = 0;
        for (key, sum) in rows {
            let place = self.place_of(key);
            in_other += u64::from(place == OTHER_PLACE);
            now.entry(place).or_insert_with(S::default).add(sum);
        }
        if !now.is_empty() {
            let known = self.present.entry(source.clone()).or_default();
            for (place, sum) in now {
                known.entry(place).or_default().raise_to(&sum);
            }
        }
        in_other
    }

    /// Takes the last numbers of a source, which is gone now. It counts with the greatest numbers
    /// that were ever read of it. Its source must not be read again.
    pub fn finish<'a>(&mut self, source: &P, rows: impl IntoIterator<Item = (&'a K, &'a S)>)
    where
        K: 'a,
        S: 'a,
    {
        self.read(source, rows);
        for (place, sum) in self.present.remove(source).unwrap_or_default() {
            self.gone.entry(place).or_default().add(&sum);
        }
    }

    /// Adds up the numbers of all sources.
    pub fn show(&self) -> ShownSums<K, S> {
        let mut sums = self.gone.clone();
        for (place, sum) in self.present.values().flatten() {
            sums.entry(*place).or_default().add(sum);
        }
        let mut take = |place| sums.remove(&place).unwrap_or_default();
        let own = self.own.iter();
        let own = own
            .map(|(key, place)| (key.clone(), take(*place)))
            .collect();
        let other = self.has_other.then(|| take(OTHER_PLACE));
        ShownSums { own, other }
    }

    /// The place of a key's sum.
    fn place_of(&mut self, key: &K) -> SumPlace {
        if let Some(place) = self.own.get(key) {
            return *place;
        }
        if key.is_other() || self.own.len() >= self.most {
            self.has_other = true;
            return OTHER_PLACE;
        }
        let place = SumPlace(self.own.len() + 1);
        self.own.insert(key.clone(), place);
        place
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

    /// Sums by number over sources with names.
    type Sums = BoundedSums<&'static str, u32, Count>;

    fn read(sums: &mut Sums, source: &'static str, rows: &[(u32, u64)]) -> u64 {
        let rows: Vec<_> = rows.iter().map(|(key, sum)| (*key, Count(*sum))).collect();
        sums.read(&source, rows.iter().map(|(key, sum)| (key, sum)))
    }

    fn finish(sums: &mut Sums, source: &'static str, rows: &[(u32, u64)]) {
        let rows: Vec<_> = rows.iter().map(|(key, sum)| (*key, Count(*sum))).collect();
        sums.finish(&source, rows.iter().map(|(key, sum)| (key, sum)));
    }

    fn shown<P: Clone + Ord>(sums: &BoundedSums<P, u32, Count>) -> Vec<(u32, u64)> {
        let shown = sums.show();
        let own = shown.own.into_iter().map(|(key, sum)| (key, sum.0));
        own.chain(shown.other.map(|other| (0, other.0))).collect()
    }

    #[test]
    fn what_is_gone_stays_in_its_sum() {
        let mut sums = Sums::new(2);
        read(&mut sums, "a", &[(1, 5), (2, 1)]);
        assert_eq!(shown(&sums), [(1, 5), (2, 1)]);
        finish(&mut sums, "a", &[(1, 6), (2, 1)]);
        read(&mut sums, "b", &[(2, 2)]);
        assert_eq!(shown(&sums), [(1, 6), (2, 3)]);
        read(&mut sums, "b", &[(1, 3), (2, 2)]);
        assert_eq!(shown(&sums), [(1, 9), (2, 3)]);
    }

    #[test]
    fn a_number_that_cannot_be_read_for_a_while_stays() {
        let mut sums = Sums::new(2);
        for (rows, expected) in [(&[(1, 5)][..], 5), (&[], 5), (&[(1, 4)], 5), (&[(1, 7)], 7)] {
            read(&mut sums, "a", rows);
            assert_eq!(shown(&sums), [(1, expected)]);
        }
    }

    #[test]
    fn what_cannot_be_read_at_the_end_of_a_source_does_not_hide_what_others_do() {
        let mut sums = Sums::new(2);
        read(&mut sums, "first", &[(1, 1_000)]);
        finish(&mut sums, "first", &[]);
        assert_eq!(shown(&sums), [(1, 1_000)]);
        read(&mut sums, "second", &[(1, 3)]);
        assert_eq!(shown(&sums), [(1, 1_003)]);
        finish(&mut sums, "second", &[(1, 4)]);
        assert_eq!(shown(&sums), [(1, 1_004)]);
    }

    #[test]
    fn further_keys_and_the_key_named_like_them_share_one_sum() {
        let mut sums = Sums::new(2);
        sums.give_places(&[7, 3]);
        let in_other = read(&mut sums, "a", &[(7, 1), (3, 2), (1, 4), (0, 8), (3, 16)]);
        assert_eq!(in_other, 2);
        assert_eq!(shown(&sums), [(3, 18), (7, 1), (0, 12)]);
        finish(&mut sums, "b", &[(1, 4)]);
        assert_eq!(shown(&sums), [(3, 18), (7, 1), (0, 16)]);
        assert_eq!(read(&mut sums, "a", &[(9, 1), (3, 18)]), 1);
    }

    #[test]
    fn the_sum_of_further_keys_is_shown_only_if_it_is_needed() {
        let mut sums = Sums::new(2);
        assert_eq!(shown(&sums), []);
        sums.show_other();
        assert_eq!(shown(&sums), [(0, 0)]);
    }

    /// What happens to a source: it counts up; then it is read with this number, which may be too
    /// small, or is not read; then it ends, or goes on.
    #[derive(Clone, Debug)]
    struct Step {
        source: u8,
        more: u64,
        read: Option<u64>,
        ends: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let read = prop::option::of(prop_oneof![Just(0), 0_u64..4]);
        (0_u8..8, 0_u64..9, read, any::<bool>()).prop_map(|(source, more, read, ends)| Step {
            source,
            more,
            read,
            ends,
        })
    }

    proptest! {
        /// Sources of the same keys count up, are read, cannot be read, and end.
        #[test]
        fn each_source_counts_with_the_greatest_number_that_was_read(
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let mut sums = BoundedSums::<usize, u32, Count>::new(2);
            let mut counts = [0_u64; 8];
            let mut lives = [0_usize; 8];
            let mut greatest = BTreeMap::<(usize, u32), u64>::new();
            for (number, Step { source, more, read, ends }) in steps.into_iter().enumerate() {
                let place = usize::from(source);
                let key = u32::from(source % 4); // 0 is the key of further keys
                counts[place] += more;
                let name = lives[place] * 8 + place;
                let rows = read.map(|less| (key, Count(counts[place].saturating_sub(less))));
                if let Some((key, Count(count))) = rows {
                    let known = greatest.entry((name, key)).or_default();
                    *known = count.max(*known);
                }
                let rows = rows.as_ref().map(|(key, sum)| (key, sum));
                if ends {
                    sums.finish(&name, rows);
                    (counts[place], lives[place]) = (0, number + 1);
                } else {
                    sums.read(&name, rows);
                }
                let expected: u64 = greatest.values().sum();
                let now = shown(&sums);
                prop_assert_eq!(now.iter().map(|(_, sum)| sum).sum::<u64>(), expected);
                prop_assert!(now.len() <= 3);
            }
        }
    }
}
