//! Reading a pool as it grows: every entry once, in order, and what was evicted unread is counted.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::rc::Rc;

use crate::support::{self, RunningSession};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::pool::layout::{Extent, Layout, Region, SLOT_BYTES, THREAD_BYTES};
use profiler_core::internal::reader::{ByteSource, Followed, Follower, PoolReader, ThreadInfo};
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::session::{self, Features, SessionParams};
use profiler_core::time::Timestamp;
use test_support::own_process;

#[derive(serde::Serialize)]
struct Numbered {
    number: u64,
}

impl ProfilerMarker for Numbered {
    const TYPE_NAME: &'static str = "Numbered";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Numbered").key_format("number", Format::Integer)
    }
}

fn start(limit: u64) -> RunningSession {
    let (limit, features) = (ByteLimit::new(limit), Features::NONE);
    RunningSession::start(SessionParams { limit, features, ..SessionParams::default() })
}

fn record(numbers: std::ops::Range<u64>) {
    for number in numbers {
        marker!("numbered", &category::TEST, MarkerOptions::default(), &Numbered { number });
    }
}

fn on_a_thread(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().spawn(body).unwrap().join().unwrap();
}

fn number(marker: &MarkerEntry<'_>) -> u64 {
    match PayloadReader::new(marker.payload).next() {
        Some(Ok(FieldValue::U64(number))) => number,
        other => panic!("{other:?}"),
    }
}

/// What was seen of every thread, in that order.
#[derive(Default)]
struct Seen(HashMap<(u32, u64), Vec<u64>>);

impl Seen {
    fn take(&mut self, one: &Followed<'_>) {
        let Entry::Marker(marker) = one.entry else { return };
        let site = one.definitions.site(marker.site).expect("a name was defined before it was used");
        assert_eq!(site.name, "numbered");
        let key = (one.thread.index.get(), one.thread.registered.raw());
        self.0.entry(key).or_default().push(number(&marker));
    }

    fn entries(&self) -> u64 {
        self.0.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Threads whose entries did not come in their order.
    fn out_of_order(&self) -> usize {
        let is_out = |numbers: &&Vec<u64>| numbers.windows(2).any(|pair| pair[0] >= pair[1]);
        self.0.values().filter(is_out).count()
    }

    /// All of so many entries, but for what the writers had no room for: on a busy machine a thread may not get its next
    /// chunk at once.
    fn assert_has_all_in_order(&self, recorded: u64) {
        let counts = counts();
        assert_eq!((self.out_of_order(), counts.evicted), (0, 0));
        assert_eq!((self.entries(), counts.recorded()), (counts.delivered, recorded));
        assert!(counts.dropped.total() < recorded / 2, "{counts:?}");
    }
}

fn counts() -> EntryCounts {
    support::snapshot().counts()
}

fn committed() -> u64 {
    let counts = counts();
    counts.delivered + counts.evicted
}

fn delivered() -> u64 {
    counts().delivered
}

#[test]
fn every_entry_is_given_once_in_the_order_of_its_thread_also_of_threads_that_come_later() {
    own_process!();
    let _session = start(16 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    record(0..10);
    let mut next = 10;
    for round in 0..60 {
        let progress = follower.advance(|one| seen.take(one)).unwrap();
        assert_eq!((progress.missed, progress.damaged), (0, 0));
        record(next..next + round * 7);
        next += round * 7;
        on_a_thread(|| record(0..300));
    }
    follower.advance(|one| seen.take(one)).unwrap();
    let idle = follower.advance(|_| panic!("nothing was recorded")).unwrap();
    assert_eq!(idle.entries, 0);
    seen.assert_has_all_in_order(next + 60 * 300);
    session::stop();
}

#[test]
fn writers_that_go_on_lose_nothing_to_a_follower_and_nothing_comes_twice() {
    own_process!();
    let _session = start(64 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    let writer = || std::thread::Builder::new().spawn(|| record(0..200_000)).unwrap();
    let writers: Vec<_> = (0..3).map(|_| writer()).collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        follower.advance(|one| seen.take(one)).unwrap();
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    follower.advance(|one| seen.take(one)).unwrap();
    seen.assert_has_all_in_order(3 * 200_000);
    session::stop();
}

#[test]
fn what_was_evicted_before_it_was_read_is_counted_exactly() {
    own_process!();
    let _session = start(1 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    for round in 0..20 {
        record(0..2_000 * (round % 4));
        on_a_thread(|| record(0..1_500));
        if round % 3 == 0 {
            follower.advance(|one| seen.take(one)).unwrap();
        }
    }
    session::destroy_released_chunks_at_or_before(Timestamp::now());
    let mut missed = 0;
    for _ in 0..3 {
        missed = follower.advance(|one| seen.take(one)).unwrap().missed;
    }
    assert!(missed > 0);
    assert_eq!(seen.entries() + missed, committed());
    session::stop();
}

#[test]
fn what_was_evicted_before_the_follower_came_is_not_missed() {
    own_process!();
    let _session = start(1 << 20);
    record(0..100_000);
    let evicted = || committed() - delivered();
    let before = evicted();
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    let mut missed = 0;
    for _ in 0..3 {
        missed = follower.advance(|one| seen.take(one)).unwrap().missed;
    }
    // The stock of ready chunks is filled after the last entry: what goes for that may go before it is read.
    let meanwhile = evicted() - before;
    assert!(before > 20_000 && missed <= meanwhile, "{missed} missed, {meanwhile} evicted meanwhile");
    assert!(seen.entries() + missed <= committed() - before);
    assert!(seen.entries() >= delivered() && seen.entries() < 100_000);
    session::stop();
}

/// A pool whose process goes on while its directory is read: what stands somewhere behind the last chunk is read when a
/// thread has come and filled several more.
struct Torn {
    pool: std::fs::File,
    directory: Extent,
    /// How far behind the last chunk the second part begins.
    ahead: Cell<usize>,
    is_torn: Cell<bool>,
}

impl Torn {
    /// Where the second part begins.
    fn cut(&self, directory: &[u8]) -> usize {
        let slot_bytes = usize::try_from(SLOT_BYTES).unwrap();
        let is_open = |slot: &[u8]| u64::from_ne_bytes(slot[..8].try_into().unwrap()) % 2 == 1;
        let last = directory.chunks_exact(slot_bytes).rposition(is_open).unwrap_or(0);
        ((last + self.ahead.get()) * slot_bytes).min(directory.len())
    }
}

impl ByteSource for Torn {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.pool.read_at(buffer, offset)?;
        if offset == self.directory.offset && buffer.len() > 4000 && !self.is_torn.replace(true) {
            let cut = self.cut(buffer);
            on_a_thread(|| record(0..PER_THREAD));
            self.pool.read_at(&mut buffer[cut..], offset + cut as u64)?;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        ByteSource::len(&self.pool)
    }
}

/// Some chunks full: a thread begins with small ones.
const PER_THREAD: u64 = 3_000;

#[test]
fn chunks_that_are_filled_while_the_directory_is_read_are_given_in_their_order() {
    own_process!();
    const LOOKS: usize = 60;
    let _session = start(64 << 20);
    let pool = session::pool_file().unwrap();
    let directory = PoolReader::open(&pool).unwrap().header().layout.region(Region::Directory);
    let torn = Torn { pool, directory, ahead: Cell::new(0), is_torn: Cell::new(false) };
    let mut follower = Follower::open(&torn).unwrap();
    let mut seen = Seen::default();
    for look in 0..LOOKS {
        torn.ahead.set(1 + look % 8);
        torn.is_torn.set(false);
        follower.advance(|one| seen.take(one)).unwrap();
    }
    follower.advance(|one| seen.take(one)).unwrap();
    seen.assert_has_all_in_order(LOOKS as u64 * PER_THREAD);
    session::stop();
}

/// A dead process's pool that a test changes.
struct Still(Rc<RefCell<Vec<u8>>>);

impl ByteSource for Still {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.borrow().read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.borrow().len() as u64)
    }
}

/// The first three chunks that a thread filled.
struct Chunks {
    bytes: Rc<RefCell<Vec<u8>>>,
    layout: Layout,
    thread: ThreadInfo,
}

impl Chunks {
    fn record() -> Self {
        let _session = start(16 << 20);
        record(0..40_000);
        let pool = session::pool_file().unwrap();
        let snapshot = PoolReader::open(&pool).unwrap().snapshot().unwrap();
        let has_chunks = |thread: &&ThreadInfo| thread.chunks.len() > 3;
        let thread = snapshot.threads.iter().find(has_chunks).unwrap().clone();
        let layout = PoolReader::open(&pool).unwrap().header().layout;
        let mut bytes = vec![0; usize::try_from(ByteSource::len(&pool).unwrap()).unwrap()];
        pool.read_at(&mut bytes, 0).unwrap();
        session::stop();
        Self { bytes: Rc::new(RefCell::new(bytes)), layout, thread }
    }

    fn add(&self, region: Region, row: u64, word: u64, more: u64) {
        let at = usize::try_from(self.layout.region(region).offset + row + word * 8).unwrap();
        let word = &mut self.bytes.borrow_mut()[at..at + 8];
        let now = u64::from_ne_bytes((&*word).try_into().unwrap()) + more;
        word.copy_from_slice(&now.to_ne_bytes());
    }

    /// The first step of evicting a chunk.
    fn count(&self, chunk: usize) {
        let row = u64::from(self.thread.index.get()) * THREAD_BYTES;
        self.add(Region::Threads, row, 12, self.thread.chunks[chunk].entries);
    }

    /// The second.
    fn close(&self, chunk: usize) {
        self.add(Region::Directory, u64::from(self.thread.chunks[chunk].index.get()) * SLOT_BYTES, 0, 1);
    }
}

#[test]
fn a_chunk_that_is_counted_as_evicted_and_not_closed_yet_is_not_missed() {
    own_process!();
    let chunks = Chunks::record();
    let mut follower = Follower::open(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut missed = |advances: usize| {
        let last = (0..advances).map(|_| follower.advance(|_| {}).unwrap().missed).last();
        last.unwrap()
    };
    assert_eq!(missed(1), 0);
    chunks.count(0);
    chunks.close(0);
    chunks.count(1); // the writer is held up, or dies, between the two steps
    assert_eq!(missed(5), 0, "both had been read");
    chunks.close(1);
    assert_eq!(missed(3), 0);
}

#[test]
fn a_chunk_that_is_being_evicted_when_the_follower_comes_is_given_and_what_goes_unread_later_is_missed() {
    own_process!();
    let chunks = Chunks::record();
    chunks.count(0);
    let mut follower = Follower::open(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut seen = Seen::default();
    let progress = follower.advance_within(1, |one| seen.take(one)).unwrap();
    assert!(progress.is_behind);
    assert_eq!((seen.entries(), progress.missed), (chunks.thread.chunks[0].entries, 0));
    chunks.close(0);
    for chunk in 1..3 {
        chunks.count(chunk);
        chunks.close(chunk);
    }
    let mut last = follower.advance(|one| seen.take(one)).unwrap();
    last = follower.advance(|one| seen.take(one)).unwrap_or(last);
    assert_eq!(last.missed, chunks.thread.chunks[1].entries + chunks.thread.chunks[2].entries);
    assert_eq!(seen.entries() + last.missed, chunks.thread.committed());
}

/// A pool whose process goes on between any two reads of it.
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
            let oldest = self.slices.borrow_mut().pop_front().unwrap_or_else(Timestamp::now);
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
fn a_follower_that_is_overtaken_between_any_two_reads_gives_nothing_wrong_and_counts_the_rest() {
    own_process!();
    let mut given = 0;
    for every in [1, 2, 3, 5, 7, 11] {
        let turn = start(4 << 20);
        record(0..5_000);
        let reads = Rc::new(Cell::new(0));
        let slices = RefCell::new(VecDeque::from([Timestamp::now()]));
        let pool = session::pool_file().unwrap();
        let source = Busy { pool, slices, reads: Rc::clone(&reads), every, next: Cell::new(5_000) };
        let mut follower = Follower::open(source).unwrap();
        let mut seen = Seen::default();
        for _ in 0..20 {
            follower.advance(|one| seen.take(one)).unwrap();
        }
        assert_eq!(seen.out_of_order(), 0, "every {every}");
        given += seen.entries();
        session::stop();
        drop(turn);
    }
    assert!(given > 0);
}

#[test]
fn a_follower_that_may_read_little_at_once_serves_all_threads_in_turn_and_loses_nothing() {
    own_process!();
    const THREADS: usize = 4;
    let _session = start(64 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let together = std::sync::Arc::new(std::sync::Barrier::new(THREADS));
    let writer = || {
        let together = std::sync::Arc::clone(&together);
        let body = move || {
            record(0..1);
            together.wait(); // each has a row of its own
            record(1..40_000);
        };
        std::thread::Builder::new().spawn(body).unwrap()
    };
    let writers: Vec<_> = (0..THREADS).map(|_| writer()).collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let mut seen = Seen::default();
    for _ in 0..THREADS {
        assert!(follower.advance_within(1, |one| seen.take(one)).unwrap().is_behind);
    }
    assert_eq!(seen.0.len(), THREADS, "one has kept the others waiting");
    let most =
        (0..10_000).take_while(|_| follower.advance_within(1, |one| seen.take(one)).unwrap().is_behind);
    assert!((1..10_000).contains(&most.count()));
    seen.assert_has_all_in_order(THREADS as u64 * 40_000);
    session::stop();
}

/// A pool whose process says each time that all chunks are others.
struct Liar {
    bytes: RefCell<Vec<u8>>,
    layout: Layout,
    /// Bytes of chunks that were read.
    read: Cell<u64>,
}

impl Liar {
    fn renew(&self) {
        let region = self.layout.region(Region::Directory);
        let range = usize::try_from(region.offset).unwrap()..usize::try_from(region.end()).unwrap();
        for slot in self.bytes.borrow_mut()[range].chunks_exact_mut(usize::try_from(SLOT_BYTES).unwrap()) {
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
fn a_process_that_renews_all_its_chunks_again_and_again_costs_no_more_than_the_budget() {
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
    let liar = Liar { bytes: RefCell::new(bytes), layout, read: Cell::new(0) };
    let mut follower = Follower::open(&liar).unwrap();
    follower.advance(|_| {}).unwrap();
    assert!(liar.read.get() > 2 * (BUDGET + LARGEST_CHUNK), "too little: {}", liar.read.get());
    for _ in 0..10 {
        liar.renew();
        let progress = follower.advance_within(BUDGET, |_| {}).unwrap();
        assert!(progress.is_behind && progress.entries > 0);
        assert!(liar.read.get() <= BUDGET + LARGEST_CHUNK, "{}", liar.read.get());
    }
}

#[test]
fn a_pool_of_rubbish_gives_no_entries_and_does_not_panic() {
    own_process!();
    let _session = start(1 << 20);
    record(0..1_000);
    let pool = session::pool_file().unwrap();
    let mut bytes = vec![0; usize::try_from(ByteSource::len(&pool).unwrap()).unwrap()];
    pool.read_at(&mut bytes, 0).unwrap();
    session::stop();
    for step in [7, 13, 64, 129] {
        let mut forged = bytes.clone();
        forged.iter_mut().skip(4096).step_by(step).for_each(|byte| *byte ^= 0xa5);
        if let Ok(mut follower) = Follower::open(&*forged) {
            for _ in 0..3 {
                let _ = follower.advance(|_| {});
            }
        }
    }
}
