//! Test of a reader that is overtaken by the writer: chunks are destroyed and created between any
//! two of its reads. Every entry is still counted.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use crate::support::{self};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::reader::{ByteSource, PoolReader};
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use test_support::own_process;
use test_support::threads::on_thread;

/// Entries recorded before the reader opens the pool, in slices of several chunks each.
const SLICES: u64 = 12;
const SLICE: u64 = 1_000;
const BEFORE: u64 = SLICES * SLICE;
/// Number of entries that are recorded each time the reader is overtaken.
const MORE: u64 = 700;

/// When a reader is overtaken, and by which threads.
#[derive(Clone, Copy, Debug)]
struct Overtaking {
    /// The first read before which it happens.
    at: usize,
    /// The number of reads until it happens again.
    every: usize,
    /// Whether entries are also recorded, not only evicted.
    records: bool,
    /// Whether threads that end record: they leave no open chunk, and their counts are moved.
    by_others: bool,
}

/// A pool whose process records and evicts its oldest slice while it is read.
struct Busy {
    pool: std::fs::File,
    slices: RefCell<VecDeque<Timestamp>>,
    reads: Rc<Cell<usize>>,
    how: Overtaking,
}

impl ByteSource for Busy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.reads.replace(self.reads.get() + 1);
        if read >= self.how.at && (read - self.how.at).is_multiple_of(self.how.every) {
            if self.how.records {
                record(MORE, self.how.by_others);
            }
            let oldest = self
                .slices
                .borrow_mut()
                .pop_front()
                .unwrap_or_else(Timestamp::now);
            session::destroy_released_chunks_at_or_before(oldest);
        }
        self.pool.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(&self.pool)
    }
}

fn record(count: u64, by_another: bool) {
    let record_all = move || (0..count).for_each(|_| marker!("entry"));
    if by_another {
        on_thread(record_all)
    } else {
        record_all()
    }
}

/// The entries that an overtaken reader counts, the entries that exist at the end, and the number
/// of reads.
fn read_overtaken(how: Overtaking) -> (u64, u64, usize) {
    let params = SessionParams {
        limit: ByteLimit::new(4 << 20),
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    let slice = |_| {
        record(SLICE, how.by_others);
        Timestamp::now()
    };
    let slices = RefCell::new((0..SLICES).map(slice).collect());
    let reads = Rc::new(Cell::new(0));
    let source = Busy {
        pool: session::pool_file().unwrap(),
        slices,
        reads: Rc::clone(&reads),
        how,
    };
    let seen = PoolReader::open(source)
        .unwrap()
        .snapshot()
        .unwrap()
        .counts();
    let end = support::snapshot().counts();
    session::stop();
    (seen.recorded(), end.recorded(), reads.get())
}

#[test]
fn an_overtaken_reader_counts_every_entry() {
    own_process!();
    for number in 0..4 {
        let records = number & 1 == 1;
        let by_others = number & 2 == 2;
        for every in [usize::MAX, 1, 2, 3, 5, 8] {
            for at in 0..40 {
                let how = Overtaking {
                    at,
                    every,
                    records,
                    by_others,
                };
                let (seen, end, reads) = read_overtaken(how);
                assert!((BEFORE..=end).contains(&seen), "{seen} of {end}: {how:?}");
                assert!(records || end == BEFORE, "{end}: {how:?}");
                if reads < at {
                    break;
                }
            }
        }
    }
}
