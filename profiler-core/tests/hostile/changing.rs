//! A recorded pool whose bytes change while it is read, as a malicious process can change them, and
//! the properties that must hold for readers that read it repeatedly.
//!
//! Used by `profiler-parent/tests/foreign_pools.rs` and the fuzz target `groups_and_follow`. The
//! input begins with one byte for the budget of an advance. Then follow changes of 12 bytes each:
//! the number of reads until the change and the way it is made (1), the region (1), the place (2),
//! the word (8).

use std::cell::{Cell, RefCell};
use std::io;

use profiler_core::internal::pool::layout::{Layout, Region, SLOT_BYTES};
use profiler_core::internal::reader::groups::{GroupReader, GroupTotals, PoolGroups};
use profiler_core::internal::reader::{ByteSource, Followed, Follower, Progress};

use super::recorded::Recorded;

/// Number of rounds; each round reads the groups and the new entries.
const ROUNDS: usize = 4;
/// Maximum number of changes of one input.
const MAX_CHANGES: usize = 200;
/// Maximum bytes of a group's name, and maximum labels of a group.
const MAX_NAME: usize = 256;
const MAX_LABELS: usize = 16;
/// Number of words of a region that changes can reach.
const REACH: u64 = 4096;
/// Maximum length of a chunk. The changes do not reach the regions, so a page has 4 KiB.
const LARGEST_CHUNK: u64 = 1 << 20;

/// A change that is made before a read.
#[derive(Clone, Copy)]
struct Change {
    due: u64,
    at: usize,
    word: u64,
    is_flip: bool,
}

/// The pool; the head of this file describes it.
pub(crate) struct Changing {
    bytes: RefCell<Vec<u8>>,
    changes: Vec<Change>,
    next: Cell<usize>,
    reads: Cell<u64>,
    /// Number of bytes read.
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
        let changes = input
            .chunks_exact(12)
            .take(MAX_CHANGES)
            .map(change)
            .collect();
        let bytes = RefCell::new(pool.bytes.clone());
        Self {
            bytes,
            changes,
            next: Cell::new(0),
            reads: Cell::new(0),
            read: Cell::new(0),
        }
    }

    fn change(&self) {
        let mut bytes = self.bytes.borrow_mut();
        for change in self
            .changes
            .iter()
            .skip(self.next.get())
            .take_while(|change| change.due <= self.reads.get())
        {
            self.next.set(self.next.get() + 1);
            let Some(place) = bytes.get_mut(change.at..change.at + 8) else {
                continue;
            };
            let old = u64::from_ne_bytes((&*place).try_into().expect("eight bytes"));
            let word = if change.is_flip {
                old ^ change.word
            } else {
                change.word
            };
            place.copy_from_slice(&word.to_ne_bytes());
        }
        self.reads.set(self.reads.get() + 1);
    }
}

/// The place of a change: in the header, or at the beginning of a region.
fn place_of(layout: &Layout, how: u8, place: u64) -> usize {
    let tables = [
        Region::Groups,
        Region::Directory,
        Region::Threads,
        Region::Definitions,
        Region::Chunks,
    ];
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

/// Reads a pool whose words change meanwhile, and passes every delivered entry to `each`. Returns
/// the number of these entries.
pub(crate) fn check(pool: &Recorded, input: &[u8], mut each: impl FnMut(&Followed<'_>)) -> u64 {
    let Some((budget, changes)) = input.split_first() else {
        return 0;
    };
    let source = Changing::new(pool, changes);
    let budget = if *budget == 0 {
        u64::MAX
    } else {
        u64::from(*budget) * 512
    };
    let groups = GroupReader::open(&source);
    let follower = Follower::open(&source);
    let (Ok(mut groups), Ok(mut follower)) = (groups, follower) else {
        return 0;
    };
    let length = pool.bytes.len() as u64;
    let mut progress = Progress::default();
    let mut all = 0;
    for _ in 0..ROUNDS {
        let before = source.read.get();
        if let Ok(found) = groups.read() {
            check_groups(&found);
        }
        // Cells are read a few times if they seem to change.
        assert!(
            source.read.get() - before <= 16 * length,
            "groups cost {} bytes",
            source.read.get() - before
        );
        let before = source.read.get();
        let mut delivered = 0;
        let advanced = follower.advance_within(budget, |entry| {
            delivered += 1;
            each(entry);
        });
        assert!(
            source.read.get() - before <= 16 * length,
            "following costs {} bytes",
            source.read.get() - before
        );
        all += delivered;
        let Ok(now) = advanced else { break };
        assert_eq!(now.entries, delivered, "delivered entries are counted");
        assert!(
            now.missed >= progress.missed && now.damaged >= progress.damaged,
            "{progress:?} then {now:?}"
        );
        progress = now;
    }
    check_newest_first(&source, budget);
    all
}

/// Reads the newest entries first, then the older ones.
fn check_newest_first(source: &Changing, budget: u64) {
    let Ok(mut follower) = Follower::open_newest_first(source) else {
        return;
    };
    let slots = source.bytes.borrow().len() / 4096;
    let mut steps = 0;
    for _ in 0..ROUNDS {
        if follower.advance_within(budget, |_| {}).is_err() {
            return;
        }
        while let Ok(Some(progress)) = follower.advance_backward(|_| {}) {
            steps += 1;
            assert!(progress.bytes <= LARGEST_CHUNK.max(SLOT_BYTES));
        }
    }
    // The list of chunks that were put off does not grow again.
    assert!(steps <= slots, "{steps} chunks in {slots} slots");
}

fn check_groups(found: &PoolGroups) {
    for pair in found.groups.windows(2) {
        assert!(pair[0].index < pair[1].index, "each row once");
    }
    for group in &found.groups {
        let definition = &group.definition;
        let totals = &group.totals;
        assert!(definition.name.len() <= MAX_NAME);
        assert!(definition.labels.len() <= MAX_LABELS);
        let nothing = GroupTotals::nothing();
        assert_eq!(totals.since(&nothing).ticks, totals.ticks);
        let none = totals.since(totals);
        assert!(
            none.ticks == 0
                && none.wall_ns == 0
                && none.histogram.total() == 0
                && none.peaks.is_empty()
        );
        let twice = totals.plus(totals);
        assert!(twice.ticks >= totals.ticks && twice.longest_ns >= totals.histogram.longest_ns());
        let shares = [0.0, 0.5, 0.99, 1.0].map(|share| totals.histogram.quantile_ns(share));
        assert!(shares.is_sorted(), "{shares:?}");
    }
}
