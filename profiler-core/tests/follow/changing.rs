//! Followers of pools that change between two reads: by their process, by a malicious process, or
//! by damage.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use profiler_core::internal::pool::layout::{Extent, Layout, Region, SLOT_BYTES};
use profiler_core::internal::reader::{ByteSource, Follower, PoolReader};
use profiler_core::session;
use profiler_core::time::Timestamp;
use test_support::own_process;
use test_support::threads::on_thread;

use super::{Seen, record, start};

/// A pool whose process records while its directory is read: the second part of the directory, from
/// some place after the last chunk, is read after a new thread has filled several more chunks.
struct Torn {
    pool: std::fs::File,
    directory: Extent,
    /// Number of slots between the last chunk and the second part.
    ahead: Cell<usize>,
    is_torn: Cell<bool>,
}

impl Torn {
    /// The byte at which the second part begins.
    fn cut(&self, directory: &[u8]) -> usize {
        let slot_bytes = usize::try_from(SLOT_BYTES).unwrap();
        let is_open = |slot: &[u8]| u64::from_ne_bytes(slot[..8].try_into().unwrap()) % 2 == 1;
        let last = directory
            .chunks_exact(slot_bytes)
            .rposition(is_open)
            .unwrap_or(0);
        ((last + self.ahead.get()) * slot_bytes).min(directory.len())
    }
}

impl ByteSource for Torn {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.pool.read_at(buffer, offset)?;
        if offset == self.directory.offset && buffer.len() > 4000 && !self.is_torn.replace(true) {
            let cut = self.cut(buffer);
            on_thread(|| record(0..PER_THREAD));
            self.pool.read_at(&mut buffer[cut..], offset + cut as u64)?;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(&self.pool)
    }
}

/// Enough for several chunks, because the first chunks of a thread are small.
const PER_THREAD: u64 = 3_000;

#[test]
fn chunks_that_are_filled_while_the_directory_is_read_are_delivered_in_order() {
    own_process!();
    const READS: usize = 60;
    let _session = start(64 << 20);
    let pool = session::pool_file().unwrap();
    let directory = PoolReader::open(&pool)
        .unwrap()
        .header()
        .layout
        .region(Region::Directory);
    let torn = Torn {
        pool,
        directory,
        ahead: Cell::new(0),
        is_torn: Cell::new(false),
    };
    let mut follower = Follower::open(&torn).unwrap();
    let mut seen = Seen::default();
    for read in 0..READS {
        torn.ahead.set(1 + read % 8);
        torn.is_torn.set(false);
        follower.advance(|found| seen.take(found)).unwrap();
    }
    follower.advance(|found| seen.take(found)).unwrap();
    seen.assert_has_all_in_order(READS as u64 * PER_THREAD);
    session::stop();
}

/// A pool whose process records and evicts between its reads.
struct Busy {
    pool: std::fs::File,
    slices: RefCell<VecDeque<Timestamp>>,
    reads: Rc<Cell<usize>>,
    every: usize,
    next: Cell<u64>,
}

impl ByteSource for Busy {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = self.reads.replace(self.reads.get() + 1);
        if read.is_multiple_of(self.every) {
            let next = self.next.replace(self.next.get() + 400);
            record(next..next + 400);
            let oldest = self
                .slices
                .borrow_mut()
                .pop_front()
                .unwrap_or_else(Timestamp::now);
            session::destroy_released_chunks_at_or_before(oldest);
            self.slices.borrow_mut().push_back(Timestamp::now());
        }
        self.pool.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(&self.pool)
    }
}

#[test]
fn a_follower_that_is_overtaken_between_any_two_reads_delivers_in_order() {
    own_process!();
    let mut delivered = 0;
    for every in [1, 2, 3, 5, 7, 11] {
        let session = start(4 << 20);
        record(0..5_000);
        let reads = Rc::new(Cell::new(0));
        let slices = RefCell::new(VecDeque::from([Timestamp::now()]));
        let pool = session::pool_file().unwrap();
        let source = Busy {
            pool,
            slices,
            reads: Rc::clone(&reads),
            every,
            next: Cell::new(5_000),
        };
        let mut follower = Follower::open(source).unwrap();
        let mut seen = Seen::default();
        for _ in 0..20 {
            follower.advance(|found| seen.take(found)).unwrap();
        }
        assert_eq!(seen.out_of_order(), 0, "every {every}");
        delivered += seen.entries();
        session::stop();
        drop(session);
    }
    assert!(delivered > 0);
}

/// The pool of a process that claims repeatedly that all its chunks are new.
struct Liar {
    bytes: RefCell<Vec<u8>>,
    layout: Layout,
    /// Number of bytes read from chunks.
    read: Cell<u64>,
}

impl Liar {
    fn renew(&self) {
        let region = self.layout.region(Region::Directory);
        let range = usize::try_from(region.offset).unwrap()..usize::try_from(region.end()).unwrap();
        for slot in
            self.bytes.borrow_mut()[range].chunks_exact_mut(usize::try_from(SLOT_BYTES).unwrap())
        {
            let generation = u64::from_ne_bytes(slot[..8].try_into().unwrap());
            slot[..8].copy_from_slice(&(generation + generation % 2 * 2).to_ne_bytes());
        }
        self.read.set(0);
    }
}

impl ByteSource for Liar {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let chunks = self.layout.region(Region::Chunks);
        if (chunks.offset..chunks.end()).contains(&offset) {
            self.read.set(self.read.get() + buffer.len() as u64);
        }
        self.bytes.borrow().read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.borrow().len() as u64)
    }
}

#[test]
fn a_process_that_renews_all_its_chunks_repeatedly_costs_no_more_than_the_budget() {
    own_process!();
    const BUDGET: u64 = 256 << 10;
    const LARGEST_CHUNK: u64 = 1 << 20;
    let _session = start(16 << 20);
    record(0..150_000);
    let pool = session::pool_file().unwrap();
    let layout = PoolReader::open(&pool).unwrap().header().layout;
    let mut bytes = vec![0; usize::try_from(ByteSource::len(&pool).unwrap()).unwrap()];
    pool.read_at(&mut bytes, 0).unwrap();
    session::stop();
    let liar = Liar {
        bytes: RefCell::new(bytes),
        layout,
        read: Cell::new(0),
    };
    let mut follower = Follower::open(&liar).unwrap();
    follower.advance(|_| {}).unwrap();
    assert!(
        liar.read.get() > 2 * (BUDGET + LARGEST_CHUNK),
        "only {} bytes to read",
        liar.read.get()
    );
    for _ in 0..10 {
        liar.renew();
        let progress = follower.advance_within(BUDGET, |_| {}).unwrap();
        assert!(progress.is_behind && progress.entries > 0);
        assert!(
            liar.read.get() <= BUDGET + LARGEST_CHUNK,
            "{}",
            liar.read.get()
        );
    }
}

#[test]
fn a_follower_of_a_damaged_pool_does_not_panic() {
    own_process!();
    let _session = start(1 << 20);
    record(0..1_000);
    let pool = session::pool_file().unwrap();
    let mut bytes = vec![0; usize::try_from(ByteSource::len(&pool).unwrap()).unwrap()];
    pool.read_at(&mut bytes, 0).unwrap();
    session::stop();
    for step in [7, 13, 64, 129] {
        let mut forged = bytes.clone();
        forged
            .iter_mut()
            .skip(4096)
            .step_by(step)
            .for_each(|byte| *byte ^= 0xa5);
        if let Ok(mut follower) = Follower::open(&*forged) {
            for _ in 0..3 {
                let _ = follower.advance(|_| {});
            }
        }
    }
}
