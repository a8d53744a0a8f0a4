//! A true pool whose bytes change while it is read, as a process that means harm can change them; and what holds for all who read
//! it again and again.
//!
//! The input says which words change before which read: (reads until then, how and where, place, word), 12 bytes each, behind
//! one byte for the budget of an advance.

use std::cell::{Cell, RefCell};
use std::io;

use profiler_core::internal::pool::layout::{Layout, Region};
use profiler_core::internal::reader::groups::{GroupReader, GroupTotals, PoolGroups};
use profiler_core::internal::reader::{ByteSource, Followed, Follower, Progress};

use super::recorded::Recorded;

/// Rounds of looking at everything.
const ROUNDS: usize = 4;
/// Changes of one input.
const MOST_CHANGES: usize = 200;
/// Bytes of a group's name, and labels of a group.
const MOST_NAME: usize = 256;
const MOST_LABELS: usize = 16;
/// Words of a region that changes reach.
const REACH: u64 = 4096;

/// A change that is due at a read.
#[derive(Clone, Copy)]
struct Change {
    due: u64,
    at: usize,
    word: u64,
    is_flip: bool,
}

/// See the head of this file.
pub(crate) struct Changing {
    bytes: RefCell<Vec<u8>>,
    changes: Vec<Change>,
    next: Cell<usize>,
    reads: Cell<u64>,
    /// Bytes that were read.
    read: Cell<u64>,
}

impl Changing {
    fn new(pool: &Recorded, input: &[u8]) -> Self {
        let mut due = 0;
        let change = |bytes: &[u8]| {
            due += u64::from(bytes[0] & 15);
            let place = u64::from(u16::from_le_bytes([bytes[2], bytes[3]]));
            let word = u64::from_le_bytes(bytes[4..12].try_into().expect("eight bytes"));
            Change {
                due,
                at: place_of(&pool.header.layout, bytes[1], place),
                word,
                is_flip: bytes[0] & 16 != 0,
            }
        };
        let changes = input.chunks_exact(12).take(MOST_CHANGES).map(change).collect();
        let bytes = RefCell::new(pool.bytes.clone());
        Self { bytes, changes, next: Cell::new(0), reads: Cell::new(0), read: Cell::new(0) }
    }

    fn change(&self) {
        let mut bytes = self.bytes.borrow_mut();
        for change in self.changes.iter().skip(self.next.get()).take_while(|one| one.due <= self.reads.get())
        {
            self.next.set(self.next.get() + 1);
            let Some(place) = bytes.get_mut(change.at..change.at + 8) else { continue };
            let old = u64::from_ne_bytes((&*place).try_into().expect("eight bytes"));
            let word = if change.is_flip { old ^ change.word } else { change.word };
            place.copy_from_slice(&word.to_ne_bytes());
        }
        self.reads.set(self.reads.get() + 1);
    }
}

/// Where a change goes: into the header or the beginning of a region.
fn place_of(layout: &Layout, how: u8, place: u64) -> usize {
    let tables = [Region::Groups, Region::Directory, Region::Threads, Region::Definitions, Region::Chunks];
    let offset = match tables.get(usize::from(how) % (tables.len() + 1)) {
        Some(region) => {
            let extent = layout.region(*region);
            extent.offset + place % REACH.min(extent.len / 8).max(1) * 8
        }
        None => place % 24 * 8,
    };
    usize::try_from(offset).expect("within the pool")
}

impl ByteSource for Changing {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.change();
        let bytes = self.bytes.borrow();
        assert!(buffer.len() <= bytes.len(), "a buffer larger than the pool");
        self.read.set(self.read.get() + buffer.len() as u64);
        bytes[..].read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }
}

/// Reads a pool of which words change meanwhile; `each` gets every entry that is followed. Says how many those were.
pub(crate) fn check(pool: &Recorded, input: &[u8], mut each: impl FnMut(&Followed<'_>)) -> u64 {
    let Some((budget, changes)) = input.split_first() else { return 0 };
    let source = Changing::new(pool, changes);
    let budget = if *budget == 0 { u64::MAX } else { u64::from(*budget) * 512 };
    let (groups, follower) = (GroupReader::open(&source), Follower::open(&source));
    let (Ok(mut groups), Ok(mut follower)) = (groups, follower) else { return 0 };
    let (length, mut progress, mut all) = (pool.bytes.len() as u64, Progress::default(), 0);
    for _ in 0..ROUNDS {
        let before = source.read.get();
        if let Ok(found) = groups.read() {
            check_groups(&found);
        }
        // Cells are read a few times while they seem to change.
        assert!(
            source.read.get() - before <= 16 * length,
            "groups cost {} bytes",
            source.read.get() - before
        );
        let (before, mut given) = (source.read.get(), 0);
        let advanced = follower.advance_within(budget, |one| {
            given += 1;
            each(one);
        });
        assert!(source.read.get() - before <= 16 * length, "following costs {}", source.read.get() - before);
        all += given;
        let Ok(now) = advanced else { break };
        assert_eq!(now.entries, given, "what is told is counted");
        assert!(
            now.missed >= progress.missed && now.damaged >= progress.damaged,
            "{progress:?} then {now:?}"
        );
        progress = now;
    }
    all
}

fn check_groups(found: &PoolGroups) {
    for pair in found.groups.windows(2) {
        assert!(pair[0].index < pair[1].index, "each row once");
    }
    for group in &found.groups {
        let (definition, totals) = (&group.definition, &group.totals);
        assert!(definition.name.len() <= MOST_NAME);
        assert!(definition.labels.len() <= MOST_LABELS);
        let nothing = GroupTotals::nothing();
        assert_eq!(totals.since(&nothing).ticks, totals.ticks);
        let none = totals.since(totals);
        assert!(none.ticks == 0 && none.wall_ns == 0 && none.histogram.total() == 0 && none.peaks.is_empty());
        let twice = totals.plus(totals);
        assert!(twice.ticks >= totals.ticks && twice.longest_ns >= totals.histogram.longest_ns());
        let shares = [0.0, 0.5, 0.99, 1.0].map(|share| totals.histogram.quantile_ns(share));
        assert!(shares.is_sorted(), "{shares:?}");
    }
}
