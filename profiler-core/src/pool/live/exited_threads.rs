//! The counts of exited threads, kept in row 0, the row of the process.
//!
//! Called by `manager::rows` with the manager's lock held; read by `reader::tables`. Row 0 has no
//! name and no end; the words of these fields hold:
//!
//! ```text
//! word  2     moves: the row that is being moved, 0 = none (low 32), moves so far (high 32)
//!      16…23  sums after an even number of moves: dropped by reason (7), evicted entries
//!      24…31  sums after an odd number of moves
//! ```
//!
//! A move writes the new sums into the set that readers do not use. One release store then makes
//! that set current and the row's own counts void. Then the row is freed, and finally the low half
//! of the word is cleared. So the counts are exact at every instant, even if the process is killed:
//!
//! | killed | sums | row |
//! |---|---|---|
//! | before the store | exclude the row | counts |
//! | after the store | include the row | is named as moved: does not count |
//! | after freeing the row | include the row | is free: does not count |

use super::row::ThreadRow;
use crate::entry_counts::{DropReason, Drops};
use crate::ids::ThreadIndex;
use crate::sync::Ordering;

/// Words of one set of sums: the drops by reason, then the evicted entries.
pub(crate) const SUMS: usize = 8;
const _: () = assert!(DropReason::COUNT + 1 == SUMS);

/// The number of moves so far, and the row that is being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moves(u64);

impl Moves {
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The row whose counts are already in the sums.
    pub(crate) fn moved(self) -> Option<ThreadIndex> {
        let row = u32::try_from(self.0 & 0xffff_ffff).ok()?;
        (row != 0).then(|| ThreadIndex::new(row))
    }

    /// Offset of the current sums among the words of the name.
    pub(crate) const fn sums_at(self) -> usize {
        if self.0 >> 32 & 1 == 0 { 0 } else { SUMS }
    }

    /// The same number of moves, without a row that is being moved.
    const fn settled(self) -> Self {
        Self(self.0 >> 32 << 32)
    }

    /// The next move, of this row.
    fn next(self, row: ThreadIndex) -> Self {
        Self(self.settled().0.wrapping_add(1 << 32) | u64::from(row.get()))
    }
}

/// Converts the sums of row 0 to the drops and the evicted entries of all exited threads together.
pub(crate) fn sums(words: [u64; SUMS]) -> (Drops, u64) {
    let [drops @ .., evicted] = words;
    (Drops::new(drops), evicted)
}

impl ThreadRow {
    /// Adds the counts of an exited thread to this row, the row of the process, and frees the
    /// thread's row.
    pub(crate) fn absorb(&self, row: ThreadIndex, gone: &Self) {
        let moves = Moves(self.unregistered.load(Ordering::Relaxed));
        let next = moves.next(row);
        // A reader that sees any of the new sums sees that the old sums are no longer current.
        crate::sync::full_fence();
        let old = self.name.iter().skip(moves.sums_at());
        let new = self.name.iter().skip(next.sums_at());
        for ((old, new), more) in old.zip(new).zip(gone.own_sums()) {
            new.store(
                old.load(Ordering::Relaxed).saturating_add(more),
                Ordering::Relaxed,
            );
        }
        self.unregistered.store(next.0, Ordering::Release);
        gone.free();
        self.unregistered.store(next.settled().0, Ordering::Release);
    }

    fn own_sums(&self) -> impl Iterator<Item = u64> {
        let dropped = self
            .dropped
            .iter()
            .take(DropReason::COUNT)
            .map(|word| word.load(Ordering::Relaxed));
        dropped.chain([self.evicted().0])
    }
}
