//! Models of moving the counts of ended threads while the real reader reads them.
//!
//! The sums are exact at every instant, so they are also exact if the process is killed at any
//! instant.

use std::io;

use loom::sync::Arc;
use loom::thread;

use crate::entry_counts::DropReason;
use crate::ids::{ThreadId, ThreadIndex};
use crate::pool::layout::{Layout, Region, THREAD_BYTES};
use crate::pool::live::{NewThread, ThreadRow};
use crate::reader::ByteSource;
use crate::reader::tables::{EntryCountRows, read_counts_around};
use crate::time::Timestamp;

/// A pool file with two rows only: the process's and one thread's.
struct Pool {
    rows: [ThreadRow; 2],
    layout: Layout,
}

impl ByteSource for Pool {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        if offset == self.layout.region(Region::Threads).offset {
            let rows = buffer
                .chunks_exact_mut(THREAD_BYTES as usize)
                .zip(&self.rows);
            rows.for_each(|(bytes, row)| bytes.copy_from_slice(&row.bytes()));
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.layout.pool_len)
    }
}

const DROPPED: u64 = 3;

impl Pool {
    /// A pool in which a thread has ended and left counts.
    fn new() -> Arc<Self> {
        let pool = Self {
            rows: std::array::from_fn(|_| ThreadRow::zeroed()),
            layout: Layout::for_limit(4096, 4096),
        };
        let process = pool.rows[0].claim().unwrap();
        assert!(pool.rows[0].keep(process, thread_numbered(0)));
        pool.add_ended_thread(1, DROPPED);
        Arc::new(pool)
    }

    fn add_ended_thread(&self, tid: u64, dropped: u64) {
        let row = &self.rows[1];
        let own = row.claim().unwrap();
        assert!(row.register(own, thread_numbered(tid)));
        (0..dropped).for_each(|_| row.count_drop(DropReason::Full));
        assert!(row.end(own, Timestamp::MAX));
    }

    fn move_counts(&self) {
        self.rows[0].absorb(ThreadIndex::new(1), &self.rows[1]);
    }

    /// The total that a reader finds; `None` if the counts changed while they were read.
    fn read(&self) -> Option<u64> {
        let (_, (), counts, settled) = read_counts_around(self, &self.layout, || Ok(())).unwrap();
        settled.then(|| total(&counts))
    }
}

fn thread_numbered(tid: u64) -> NewThread<'static> {
    NewThread {
        tid: ThreadId::new(tid),
        is_main: false,
        name: "",
        at: Timestamp::ZERO,
    }
}

fn total(counts: &EntryCountRows) -> u64 {
    let gone = counts
        .process
        .map(|process| process.counts)
        .unwrap_or_default();
    gone.dropped.total()
        + counts
            .threads
            .iter()
            .map(|thread| thread.dropped.total())
            .sum::<u64>()
}

fn against_a_reader(writer: fn(&Pool)) {
    loom::model(move || {
        let pool = Pool::new();
        let writing = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || writer(&pool))
        };
        if let Some(read) = pool.read() {
            assert_eq!(read, DROPPED, "counts in two places or in none");
        }
        writing.join().unwrap();
        assert_eq!(pool.read(), Some(DROPPED));
    });
}

#[test]
fn loom_moved_counts_are_in_one_place_at_every_instant() {
    against_a_reader(Pool::move_counts);
}

#[test]
fn loom_counts_moved_twice_through_one_row_are_in_one_place_at_every_instant() {
    against_a_reader(|pool| {
        pool.move_counts();
        pool.add_ended_thread(2, 0);
        pool.move_counts();
    });
}
