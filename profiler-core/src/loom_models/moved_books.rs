//! The books of threads that are gone, read by the real reader while they are moved: the sums are
//! exact at every instant, which is also every instant at which the process may be killed.

use std::io;

use loom::sync::Arc;
use loom::thread;

use crate::entry_counts::DropReason;
use crate::ids::{ThreadId, ThreadIndex};
use crate::pool::layout::{Layout, Region, THREAD_BYTES};
use crate::pool::live::{NewThread, ThreadRow};
use crate::reader::ByteSource;
use crate::reader::tables::{Books, read_books_around};
use crate::time::Timestamp;

/// The process's row and one thread's, as a file that holds nothing else.
struct Pool {
    rows: [ThreadRow; 2],
    layout: Layout,
}

impl ByteSource for Pool {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        if offset == self.layout.region(Region::Threads).offset {
            let rows = buffer.chunks_exact_mut(THREAD_BYTES as usize).zip(&self.rows);
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
    /// A thread has ended, with books.
    fn new() -> Arc<Self> {
        let pool = Self {
            rows: std::array::from_fn(|_| ThreadRow::zeroed()),
            layout: Layout::for_limit(4096, 4096),
        };
        let process = pool.rows[0].claim().unwrap();
        assert!(pool.rows[0].keep(process, thread_numbered(0)));
        pool.thread_of(1, DROPPED);
        Arc::new(pool)
    }

    fn thread_of(&self, tid: u64, dropped: u64) {
        let row = &self.rows[1];
        let own = row.claim().unwrap();
        assert!(row.register(own, thread_numbered(tid)));
        (0..dropped).for_each(|_| row.count_drop(DropReason::Full));
        assert!(row.end(own, Timestamp::MAX));
    }

    fn move_books(&self) {
        self.rows[0].absorb(ThreadIndex::new(1), &self.rows[1]);
    }

    /// What a reader makes of it, if it finds it settled.
    fn read(&self) -> Option<u64> {
        let (_, (), books, settled) = read_books_around(self, &self.layout, || Ok(())).unwrap();
        settled.then(|| total(&books))
    }
}

fn thread_numbered(tid: u64) -> NewThread<'static> {
    NewThread { tid: ThreadId::new(tid), is_main: false, name: "", at: Timestamp::ZERO }
}

fn total(books: &Books) -> u64 {
    let gone = books.process.map(|process| process.counts).unwrap_or_default();
    gone.dropped.total() + books.threads.iter().map(|thread| thread.dropped.total()).sum::<u64>()
}

fn against_a_reader(writer: fn(&Pool)) {
    loom::model(move || {
        let pool = Pool::new();
        let writing = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || writer(&pool))
        };
        if let Some(read) = pool.read() {
            assert_eq!(read, DROPPED, "books in two places or in none");
        }
        writing.join().unwrap();
        assert_eq!(pool.read(), Some(DROPPED));
    });
}

#[test]
fn loom_moved_books_are_in_one_place_at_every_instant() {
    against_a_reader(Pool::move_books);
}

#[test]
fn loom_books_moved_twice_through_one_row_are_in_one_place_at_every_instant() {
    against_a_reader(|pool| {
        pool.move_books();
        pool.thread_of(2, 0);
        pool.move_books();
    });
}
