//! The latest panics of the process, for the verdict on a process that has died of one.
//!
//! Written by `panic_note`, on the thread that panics; read by `reader::panics` through the file,
//! usually after the process has died. One row belongs to the main thread, whose panic ends most
//! programs. The other threads take turns at the other rows.
//!
//! ```text
//! table  word  0       rows that other threads than the main thread have asked for so far
//!              1…7     spare
//!              8…      8 rows of 63 words; row 0 is that of the main thread
//! row    word  0       version: 0 = never written, odd = being written
//!              1       epoch of the session
//!              2       when the panic began
//!              3       when its hook returned, 0 = it has not
//!              4       system thread number
//!              5       line (low 32), column (high 32)
//!              6       lengths in bytes: file (low 16), thread name, message; flags (high 16)
//!              7       spare
//!              8…62    texts: file, thread name, message, without gaps
//! ```
//!
//! A writer makes the version odd by compare-and-swap, writes, and makes the version even with a
//! release store. A writer that finds an odd version takes another row. So the texts of two panics
//! never mix. A process that is killed in between leaves the version odd, and readers skip the row.

#![allow(unsafe_code)]

use super::super::SharedWords;
use super::super::layout::{MAX_PANICS, PANIC_TEXT_WORDS};
use crate::ids::ThreadId;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// Words before the rows.
pub(crate) const HEAD_WORDS: usize = 8;
/// Words of a row.
pub(crate) const ROW_WORDS: usize = 8 + PANIC_TEXT_WORDS;
/// Rows of other threads than the main thread.
const OTHERS: u64 = MAX_PANICS as u64 - 1;
/// Flag: the panic belongs to the main thread.
pub(crate) const OF_MAIN_THREAD: u64 = 1;
/// Flag: the panic ends the process.
pub(crate) const ENDS_PROCESS: u64 = 2;
/// Lowest bit of the flags in word 6.
pub(crate) const FLAGS_SHIFT: u32 = 48;

/// Offsets of the words of a row, for the reader.
pub(crate) mod word {
    pub(crate) const VERSION: usize = 0;
    pub(crate) const EPOCH: usize = 1;
    pub(crate) const AT: usize = 2;
    pub(crate) const HOOK_RETURNED: usize = 3;
    pub(crate) const THREAD: usize = 4;
    pub(crate) const PLACE: usize = 5;
    pub(crate) const LENGTHS: usize = 6;
    pub(crate) const TEXTS: usize = 8;
}

/// The contents of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanicWords {
    pub(crate) epoch: u64,
    pub(crate) at: Timestamp,
    pub(crate) thread: ThreadId,
    pub(crate) place: u64,
    /// Lengths and flags.
    pub(crate) lengths: u64,
    pub(crate) texts: [u64; PANIC_TEXT_WORDS],
}

/// A row that holds a panic of this process, until another panic takes the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenRow {
    row: usize,
    version: u64,
}

/// The words of a row.
#[derive(Debug)]
#[repr(C)]
struct PanicRow {
    version: AtomicU64,
    epoch: AtomicU64,
    at: AtomicU64,
    hook_returned: AtomicU64,
    thread: AtomicU64,
    place: AtomicU64,
    lengths: AtomicU64,
    spare: AtomicU64,
    texts: [AtomicU64; PANIC_TEXT_WORDS],
}

/// The words of the table.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PanicTable {
    turns: AtomicU64,
    spare: [AtomicU64; HEAD_WORDS - 1],
    rows: [PanicRow; MAX_PANICS],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for PanicTable {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<PanicTable>() as u64 == super::super::layout::PANIC_TABLE_BYTES);

impl PanicRow {
    /// Changes the row, if no other thread writes it and its version is still `expected`. Returns
    /// the new version.
    fn change(&self, expected: u64, change: impl FnOnce(&Self)) -> Option<u64> {
        let busy = expected.wrapping_add(1);
        let claim =
            self.version
                .compare_exchange(expected, busy, Ordering::Acquire, Ordering::Relaxed);
        if expected & 1 == 1 || claim.is_err() {
            return None;
        }
        // A reader that sees any of the new words sees that the row is being written.
        crate::sync::full_fence();
        change(self);
        let written = busy.wrapping_add(1);
        self.version.store(written, Ordering::Release);
        Some(written)
    }

    fn write(&self, words: &PanicWords) -> Option<u64> {
        let version = self.version.load(Ordering::Relaxed);
        if version & 1 == 1 {
            return None;
        }
        self.change(version, |row| {
            row.epoch.store(words.epoch, Ordering::Relaxed);
            row.at.store(words.at.raw(), Ordering::Relaxed);
            row.hook_returned.store(0, Ordering::Relaxed);
            row.thread.store(words.thread.get(), Ordering::Relaxed);
            row.place.store(words.place, Ordering::Relaxed);
            row.lengths.store(words.lengths, Ordering::Relaxed);
            let texts = row.texts.iter().zip(words.texts);
            texts.for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        })
    }
}

impl PanicTable {
    /// Writes a panic into the row of the main thread, or into the next row of the others. `None`
    /// if other threads are writing all of these rows.
    pub(crate) fn write(&self, is_main: bool, words: &PanicWords) -> Option<WrittenRow> {
        if is_main {
            return self.write_row(0, words);
        }
        (0..OTHERS).find_map(|_| {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let row = usize::try_from(turn % OTHERS).ok()?;
            self.write_row(row + 1, words)
        })
    }

    fn write_row(&self, row: usize, words: &PanicWords) -> Option<WrittenRow> {
        let version = self.rows.get(row)?.write(words)?;
        Some(WrittenRow { row, version })
    }

    /// Notes that the hook of the panic has returned. `None` if the row holds another panic.
    pub(crate) fn hook_returned(&self, written: WrittenRow, at: Timestamp) -> Option<WrittenRow> {
        let note = |row: &PanicRow| row.hook_returned.store(at.raw(), Ordering::Relaxed);
        self.change(written, note)
    }

    /// Notes that the panic ends the process, and that its hook runs again. `None` if the row holds
    /// another panic.
    pub(crate) fn ends_process(&self, written: WrittenRow) -> Option<WrittenRow> {
        self.change(written, |row| {
            let flag = ENDS_PROCESS << FLAGS_SHIFT;
            row.lengths.fetch_or(flag, Ordering::Relaxed);
            row.hook_returned.store(0, Ordering::Relaxed);
        })
    }

    fn change(&self, written: WrittenRow, change: impl FnOnce(&PanicRow)) -> Option<WrittenRow> {
        let row = self.rows.get(written.row)?;
        let version = row.change(written.version, change)?;
        Some(WrittenRow { version, ..written })
    }
}

/// A table in a model or a unit test, without a pool.
#[cfg(test)]
mod model {
    use super::*;

    impl PanicTable {
        pub(super) fn zeroed() -> Self {
            let word = || AtomicU64::new(0);
            let row = || PanicRow {
                version: word(),
                epoch: word(),
                at: word(),
                hook_returned: word(),
                thread: word(),
                place: word(),
                lengths: word(),
                spare: word(),
                texts: std::array::from_fn(|_| word()),
            };
            Self {
                turns: word(),
                spare: std::array::from_fn(|_| word()),
                rows: std::array::from_fn(|_| row()),
            }
        }
    }

    pub(super) fn words(number: u64) -> PanicWords {
        PanicWords {
            epoch: number,
            at: Timestamp::from_raw(number),
            thread: ThreadId::new(number),
            place: number,
            lengths: number,
            texts: [0; PANIC_TEXT_WORDS],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::model::words;
    use super::*;

    fn epochs(table: &PanicTable) -> Vec<u64> {
        let epoch = |row: &PanicRow| row.epoch.load(Ordering::Relaxed);
        table.rows.iter().map(epoch).collect()
    }

    #[test]
    fn the_panic_of_the_main_thread_outlasts_any_number_of_others() {
        let table = PanicTable::zeroed();
        table.write(true, &words(100)).unwrap();
        for number in 1..=20 {
            table.write(false, &words(number)).unwrap();
        }
        assert_eq!(epochs(&table), [100, 15, 16, 17, 18, 19, 20, 14]);
    }

    #[test]
    fn a_row_that_a_killed_writer_left_is_passed_over() {
        let table = PanicTable::zeroed();
        table.rows[0].version.store(1, Ordering::Relaxed);
        table.rows[1].version.store(7, Ordering::Relaxed);
        assert_eq!(table.write(true, &words(1)), None);
        table.write(false, &words(2)).unwrap();
        assert_eq!(epochs(&table)[..3], [0, 0, 2]);
    }

    #[test]
    fn a_late_return_of_a_hook_does_not_change_the_panic_that_took_its_row() {
        let table = PanicTable::zeroed();
        let first = table.write(true, &words(1)).unwrap();
        let second = table.write(true, &words(2)).unwrap();
        assert_eq!(table.hook_returned(first, Timestamp::from_raw(9)), None);
        let returned = || table.rows[0].hook_returned.load(Ordering::Relaxed);
        assert_eq!(returned(), 0);
        assert_eq!(table.ends_process(first), None);
        let second = table.ends_process(second).unwrap();
        assert!(
            table
                .hook_returned(second, Timestamp::from_raw(9))
                .is_some()
        );
        assert_eq!(returned(), 9);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The words of a row without texts, which would only make the model larger.
    fn write(row: &PanicRow, number: u64) -> Option<u64> {
        let version = row.version.load(Ordering::Relaxed);
        if version & 1 == 1 {
            return None;
        }
        row.change(version, |row| {
            row.at.store(number, Ordering::Relaxed);
            row.place.store(number, Ordering::Relaxed);
        })
    }

    #[test]
    fn loom_two_panics_never_mix_in_a_row() {
        loom::model(|| {
            let table = Arc::new(PanicTable::zeroed());
            let writers = [1, 2].map(|number| {
                let table = Arc::clone(&table);
                thread::spawn(move || write(&table.rows[0], number))
            });
            let row = &table.rows[0];
            let before = row.version.load(Ordering::Acquire);
            let at = row.at.load(Ordering::Relaxed);
            let place = row.place.load(Ordering::Relaxed);
            crate::sync::full_fence();
            let after = row.version.load(Ordering::Relaxed);
            if before == after && before & 1 == 0 {
                assert_eq!(at, place, "two panics in one row");
            }
            let written = writers.map(|writer| writer.join().unwrap());
            assert!(written.iter().any(Option::is_some));
        });
    }
}
