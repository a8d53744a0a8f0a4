//! The latest name of each piece of generated code, for the addresses of a profile.
//!
//! Filled by the parsers of perf maps and jitdumps in the order of the file; read by
//! [`crate::look_up`]. A runtime uses memory again, so a later range replaces every earlier range
//! that it overlaps. Only ranges that contain a wanted address are kept. Invariants: the kept
//! ranges do not overlap; there are at most as many as wanted addresses, and their names have at
//! most [`MAX_TEXT`] bytes.

use std::collections::BTreeMap;

/// Limit on the bytes of a name in a file. The rest of a longer name is left out.
pub(crate) const LONGEST_NAME: usize = 1024;
/// The length that code of unknown size has at most: up to the next code in the file. It is what
/// `perf` assumes.
const LONGEST_UNSIZED: u64 = 4096;
/// Limit on the bytes of all names of a process. Ranges beyond it are left out.
const MAX_TEXT: usize = 8 << 20;

/// The addresses from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressRange {
    first: u64,
    last: u64,
}

impl AddressRange {
    /// `None` for an empty range, and for one beyond the last address.
    pub(crate) fn new(start: u64, size: u64) -> Option<Self> {
        let last = start.checked_add(size.checked_sub(1)?)?;
        Some(Self { first: start, last })
    }
}

#[derive(Debug)]
struct NamedRange {
    last: u64,
    name: Box<str>,
}

/// The named ranges that contain a wanted address.
#[derive(Debug)]
pub(crate) struct NamedRanges {
    /// Ascending.
    wanted: Box<[u64]>,
    /// By first address.
    kept: BTreeMap<u64, NamedRange>,
    /// The names of code of unknown size, by first address, where a wanted address may be in it.
    starts: BTreeMap<u64, Box<str>>,
    /// For each wanted address, the start of the nearest code before it that ends before it.
    nearest: Box<[u64]>,
    text: usize,
    left_out: u64,
    nameless_moves: u64,
}

impl NamedRanges {
    /// For these addresses, which are ascending.
    pub(crate) fn new(wanted: &[u64]) -> Self {
        Self {
            wanted: wanted.into(),
            kept: BTreeMap::new(),
            starts: BTreeMap::new(),
            nearest: vec![0; wanted.len()].into(),
            text: 0,
            left_out: 0,
            nameless_moves: 0,
        }
    }

    /// Gives the code in a range this name.
    pub(crate) fn add(&mut self, range: AddressRange, name: &[u8]) {
        self.remove(range);
        self.note_end(range);
        if self.is_wanted(range) {
            self.keep(range, text_of(name));
        }
    }

    /// Gives the code that begins at an address this name. Its size is not known.
    pub(crate) fn add_start(&mut self, start: u64, name: &[u8]) {
        let last = start.saturating_add(LONGEST_UNSIZED - 1);
        let may_contain = AddressRange { first: start, last };
        if !self.is_wanted(may_contain) {
            return;
        }
        let name = text_of(name);
        if self.text + name.len() > MAX_TEXT {
            self.left_out += 1;
            return;
        }
        self.text += name.len();
        if let Some(before) = self.starts.insert(start, name) {
            self.text -= before.len();
        }
    }

    /// Notes that code ends before the wanted addresses that follow it closely.
    fn note_end(&mut self, range: AddressRange) {
        let after = self.wanted.partition_point(|wanted| *wanted <= range.last);
        let until = range.first.saturating_add(LONGEST_UNSIZED);
        let later = self.wanted.get(after..).unwrap_or_default();
        let nearest = self.nearest.get_mut(after..).unwrap_or_default();
        let close = later.iter().zip(nearest);
        for (_, nearest) in close.take_while(|(wanted, _)| **wanted < until) {
            *nearest = (*nearest).max(range.first);
        }
    }

    /// The name of code of unknown size at an address.
    fn unsized_at(&self, address: u64) -> Option<&str> {
        let (start, name) = self.starts.range(..=address).next_back()?;
        let place = self.wanted.binary_search(&address).ok();
        let nearest = place.and_then(|place| self.nearest.get(place));
        let is_nearest = nearest.is_none_or(|nearest| nearest <= start);
        (is_nearest && address - start < LONGEST_UNSIZED).then_some(&**name)
    }

    /// Moves the code of a range to another address, with its name. The name is known only if the
    /// range contains a wanted address.
    pub(crate) fn relocate(&mut self, from: AddressRange, to: AddressRange) {
        let known = self.kept.get(&from.first);
        let name = known.map(|known| known.name.clone());
        self.remove(from);
        self.remove(to);
        match name {
            _ if !self.is_wanted(to) => {}
            Some(name) => self.keep(to, name),
            None => self.nameless_moves += 1,
        }
    }

    /// The name of the code at an address.
    pub(crate) fn name_at(&self, address: u64) -> Option<&str> {
        let sized = self.kept.range(..=address).next_back();
        let sized = sized.filter(|(_, range)| address <= range.last);
        match sized {
            Some((_, range)) => Some(&range.name),
            None => self.unsized_at(address),
        }
    }

    /// Number of ranges with wanted addresses that have no name for lack of room.
    pub(crate) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of moves to wanted addresses of code whose name is not known.
    pub(crate) const fn nameless_moves(&self) -> u64 {
        self.nameless_moves
    }

    fn is_wanted(&self, range: AddressRange) -> bool {
        let next = self.wanted.partition_point(|wanted| *wanted < range.first);
        let next = self.wanted.get(next);
        next.is_some_and(|wanted| *wanted <= range.last)
    }

    /// Removes all ranges that overlap this one.
    fn remove(&mut self, range: AddressRange) {
        while let Some((first, known)) = self.kept.range(..=range.last).next_back() {
            if known.last < range.first {
                return;
            }
            let first = *first;
            if let Some(removed) = self.kept.remove(&first) {
                self.text -= removed.name.len();
            }
        }
    }

    fn keep(&mut self, range: AddressRange, name: Box<str>) {
        if self.text + name.len() > MAX_TEXT {
            self.left_out += 1;
            return;
        }
        self.text += name.len();
        let last = range.last;
        self.kept.insert(range.first, NamedRange { last, name });
    }
}

fn text_of(name: &[u8]) -> Box<str> {
    let start = name.get(..LONGEST_NAME);
    let mut text = String::from_utf8_lossy(start.unwrap_or(name)).into_owned();
    if start.is_some_and(|start| start.len() < name.len()) {
        text.push('…');
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u64, size: u64) -> AddressRange {
        AddressRange::new(start, size).unwrap()
    }

    #[test]
    fn a_later_range_replaces_the_ranges_that_it_overlaps() {
        let wanted = [10, 15, 19, 25, 30];
        let mut ranges = NamedRanges::new(&wanted);
        ranges.add(range(10, 10), b"a");
        ranges.add(range(20, 10), b"b");
        let names = |ranges: &NamedRanges| wanted.map(|at| ranges.name_at(at).map(String::from));
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            names(&ranges),
            [some("a"), some("a"), some("a"), some("b"), None]
        );
        ranges.add(range(19, 3), b"c");
        assert_eq!(names(&ranges), [None, None, some("c"), None, None]);
        ranges.add(range(0, 1), b"far away");
        assert_eq!(ranges.kept.len(), 1);
        ranges.relocate(range(19, 3), range(14, 3));
        assert_eq!(names(&ranges), [None, some("c"), None, None, None]);
        ranges.relocate(range(100, 3), range(30, 3));
        assert_eq!((ranges.name_at(30), ranges.nameless_moves()), (None, 1));
        assert_eq!(ranges.left_out(), 0, "that is no lack of room");
    }

    #[test]
    fn empty_ranges_and_ranges_beyond_the_last_address_do_not_exist() {
        assert_eq!(AddressRange::new(5, 0), None);
        assert_eq!(AddressRange::new(u64::MAX, 2), None);
        assert!(AddressRange::new(u64::MAX, 1).is_some());
    }

    #[test]
    fn names_are_bounded_and_ranges_that_do_not_fit_are_counted() {
        let wanted: Vec<u64> = (0..20_000).collect();
        let mut ranges = NamedRanges::new(&wanted);
        for address in &wanted {
            ranges.add(range(*address, 1), &[b'x'; 2 * LONGEST_NAME]);
        }
        assert!(ranges.text <= MAX_TEXT);
        assert_eq!(ranges.kept.len() as u64 + ranges.left_out(), 20_000);
        let name = ranges.name_at(0).unwrap();
        assert!(name.ends_with('…') && name.len() < LONGEST_NAME + 4);
        // Room that is released is used again.
        ranges.add(range(0, 10_000), b"short");
        ranges.add(range(19_999, 1), b"fits now");
        assert_eq!(ranges.name_at(19_999), Some("fits now"));
    }

    proptest! {
        #[test]
        fn names_are_those_of_a_model_that_keeps_every_range(
            adds in prop::collection::vec((0..200_u64, 1..40_u64), 0..60),
            wanted in prop::collection::btree_set(0..240_u64, 0..40),
        ) {
            let wanted: Vec<u64> = wanted.into_iter().collect();
            let mut ranges = NamedRanges::new(&wanted);
            let mut model: Vec<(u64, u64, String)> = Vec::new();
            for (number, (start, size)) in adds.into_iter().enumerate() {
                let name = number.to_string();
                ranges.add(range(start, size), name.as_bytes());
                model.retain(|(from, len, _)| from + len <= start || start + size <= *from);
                model.push((start, size, name));
            }
            for address in &wanted {
                let known = model.iter().find(|(from, len, _)| (*from..from + len).contains(address));
                prop_assert_eq!(ranges.name_at(*address), known.map(|(.., name)| name.as_str()));
            }
            prop_assert!(ranges.kept.len() <= wanted.len());
            let text: usize = ranges.kept.values().map(|range| range.name.len()).sum();
            prop_assert_eq!(ranges.text, text);
        }
    }
}
