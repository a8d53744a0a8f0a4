//! Models of a thread row's life: taken, kept beyond its session, released, ended, its counts
//! moved, and taken again.

use loom::sync::Arc;
use loom::thread;

use super::NoWords;
use crate::entry_counts::DropReason;
use crate::ids::{ByteLimit, ThreadId, ThreadIndex};
use crate::manager::threads::{RowTable, ThreadRows};
use crate::pool::budget::{Budget, ChargedPages};
use crate::pool::layout::Extent;
use crate::pool::live::{NewThread, RowUse, ThreadRow};
use crate::time::Timestamp;

/// A table of a few rows, with the bits that mark free rows.
struct Table {
    rows: [ThreadRow; 3],
    budget: Budget,
    threads: ThreadRows,
}

impl RowTable for Table {
    fn thread_row(&self, index: ThreadIndex) -> Option<&ThreadRow> {
        self.rows.get(index.get() as usize)
    }

    fn cover(&self, charged: &ChargedPages, end: u64) -> bool {
        charged.cover(
            &NoWords,
            &self.budget,
            Extent {
                offset: 0,
                len: 4096,
            },
            end,
        )
    }
}

type Place = (ThreadIndex, RowUse);

impl Table {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: std::array::from_fn(|_| ThreadRow::zeroed()),
            // Two threads that reach a page at once both charge it, and one returns the charge.
            budget: Budget::new(ByteLimit::new(2 * 4096), 0, 4096),
            threads: ThreadRows::with_words(1, 4096),
        })
    }

    fn add(&self, tid: u64) -> Option<Place> {
        self.threads.add(self, named(tid))
    }

    fn row(&self, place: Place) -> &ThreadRow {
        &self.rows[place.0.get() as usize]
    }

    /// Writes a thread's counts into its row: one drop, and as many sealed entries as its number.
    fn write_counts(&self, place: Place, tid: u64) {
        self.row(place).count_drop(DropReason::Full);
        self.row(place).seal(tid);
    }

    /// Asserts that the row belongs to this thread and has the counts that this thread wrote.
    fn check(&self, place: Place, tid: u64) {
        assert!(
            self.row(place).is_in_use(),
            "the row was taken from its thread"
        );
        assert_eq!(
            self.row(place).owner_and_counts(),
            (tid, 1, tid, 0),
            "another thread wrote into the row"
        );
    }

    /// Takes all free rows and returns their number.
    fn free_rows(&self) -> usize {
        (0..4).map_while(|tid| self.add(100 + tid)).count()
    }
}

fn named(tid: u64) -> NewThread<'static> {
    NewThread {
        tid: ThreadId::new(tid),
        is_main: false,
        name: "",
        at: Timestamp::ZERO,
    }
}

/// A session ends and another begins, in which a thread takes a row and writes counts into it.
fn next_session(table: &Table) {
    table.threads.clear(table);
    let place = table.add(7).unwrap();
    table.write_counts(place, 7);
    table.check(place, 7);
}

#[test]
fn loom_a_thread_delayed_across_two_sessions_does_not_write_into_anothers_row() {
    loom::model(|| {
        let table = Table::new();
        let old = table.add(5).unwrap();
        let delayed = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.write_counts(old, 5);
                table.threads.end(&*table, old.0, old.1, Timestamp::MAX);
            })
        };
        next_session(&table);
        delayed.join().unwrap();
        let new = (0..3)
            .find(|row| table.rows[*row].owner_and_counts().0 == 7 && table.rows[*row].is_in_use());
        assert_eq!(
            new.map(|row| table.rows[row].owner_and_counts()),
            Some((7, 1, 7, 0)),
            "the new thread's row"
        );
    });
}

#[test]
fn loom_a_row_taken_while_sessions_change_has_one_owner() {
    loom::model(|| {
        let table = Table::new();
        let taking = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let place = table.add(5);
                if let Some(place) = place {
                    table.write_counts(place, 5);
                }
                place
            })
        };
        table.threads.clear(&*table);
        let new = table.add(7).unwrap();
        table.write_counts(new, 7);
        let old = taking.join().unwrap();
        table.check(new, 7);
        assert_ne!(old.map(|place| place.0), Some(new.0));
    });
}

#[test]
fn loom_a_row_of_an_ended_session_is_free_once_its_thread_releases_it() {
    loom::model(|| {
        let table = Table::new();
        let old = table.add(5).unwrap();
        let leaving = {
            let table = Arc::clone(&table);
            thread::spawn(move || table.threads.end(&*table, old.0, old.1, Timestamp::MAX))
        };
        table.threads.clear(&*table);
        leaving.join().unwrap();
        // A row whose thread ended before the session was freed with the session; otherwise the
        // thread freed it.
        assert_eq!(table.free_rows(), 3, "a row is lost");
    });
}

#[test]
fn loom_the_main_thread_takes_and_releases_the_row_kept_for_it() {
    loom::model(|| {
        let table = Table::new();
        let row = table.threads.keep(&*table, named(1)).unwrap();
        let main = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let Some(own) = table.rows[row.get() as usize].take_kept() else {
                    return;
                };
                table.write_counts((row, own), 1);
                table.threads.step_back(&*table, row, own);
            })
        };
        next_session(&table);
        main.join().unwrap();
        // All rows are free except the other thread's.
        assert_eq!(table.free_rows(), 2, "a row is lost");
    });
}

#[test]
fn loom_a_row_is_reused_only_after_its_counts_are_moved() {
    loom::model(|| {
        let table = Table::new();
        let process = table.threads.keep(&*table, named(0)).unwrap();
        let old = table.add(5).unwrap();
        table.write_counts(old, 5);
        let next = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let place = table.add(7).unwrap();
                table.write_counts(place, 7);
                place
            })
        };
        table.threads.end(&*table, old.0, old.1, Timestamp::MAX);
        for row in table.threads.take_ended(&*table) {
            table.rows[process.get() as usize].absorb(row, &table.rows[row.get() as usize]);
            table.threads.put(row);
        }
        let new = next.join().unwrap();
        table.check(new, 7);
    });
}
