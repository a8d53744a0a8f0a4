//! Tests of the follower, which reads a pool while it grows: every entry is delivered once, in
//! order, and entries that are evicted unread are counted.
//!
//! `changing` tests pools that change between two reads, and damaged pools; `newest_first` tests
//! followers that read the newest entries first.

mod changing;
mod newest_first;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use crate::support::{self, RunningSession};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::pool::layout::{Layout, Region, SLOT_BYTES, THREAD_BYTES};
use profiler_core::internal::reader::{ByteSource, Followed, Follower, PoolReader, ThreadInfo};
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::session::EntryCounts;
use profiler_core::session::{self, Features, SessionParams};
use profiler_core::time::Timestamp;
use test_support::own_process;
use test_support::threads::on_thread;

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
    let limit = ByteLimit::new(limit);
    let features = Features::NONE;
    RunningSession::start(SessionParams {
        limit,
        features,
        ..SessionParams::default()
    })
}

fn record(numbers: std::ops::Range<u64>) {
    for number in numbers {
        marker!(
            "numbered",
            &category::TEST,
            MarkerOptions::default(),
            &Numbered { number }
        );
    }
}

fn number(marker: &MarkerEntry<'_>) -> u64 {
    match PayloadReader::new(marker.payload).next() {
        Some(Ok(FieldValue::U64(number))) => number,
        other => panic!("{other:?}"),
    }
}

/// The numbers of every thread's entries, in the order of delivery.
#[derive(Default)]
struct Seen(HashMap<(u32, u64), Vec<u64>>);

impl Seen {
    fn take(&mut self, found: &Followed<'_>) {
        let Entry::Marker(marker) = found.entry else {
            return;
        };
        let site = found
            .definitions
            .site(marker.site)
            .expect("a call site is defined before it is used");
        assert_eq!(site.name, "numbered");
        let key = (found.thread.index.get(), found.thread.registered.raw());
        self.0.entry(key).or_default().push(number(&marker));
    }

    fn entries(&self) -> u64 {
        self.0.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Number of threads whose entries were delivered out of order.
    fn out_of_order(&self) -> usize {
        let is_out = |numbers: &&Vec<u64>| numbers.windows(2).any(|pair| pair[0] >= pair[1]);
        self.0.values().filter(is_out).count()
    }

    /// Checks that all of `recorded` entries were delivered, except dropped ones: on a busy machine
    /// a thread may not get its next chunk at once.
    fn assert_has_all_in_order(&self, recorded: u64) {
        let counts = counts();
        assert_eq!((self.out_of_order(), counts.evicted), (0, 0));
        assert_eq!(
            (self.entries(), counts.recorded()),
            (counts.delivered, recorded)
        );
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
fn every_entry_is_delivered_once_and_in_order_also_of_threads_that_start_later() {
    own_process!();
    let _session = start(16 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    record(0..10);
    let mut next = 10;
    for round in 0..60 {
        let progress = follower.advance(|found| seen.take(found)).unwrap();
        assert_eq!((progress.missed, progress.damaged), (0, 0));
        record(next..next + round * 7);
        next += round * 7;
        on_thread(|| record(0..300));
    }
    follower.advance(|found| seen.take(found)).unwrap();
    let idle = follower
        .advance(|_| panic!("nothing was recorded"))
        .unwrap();
    assert_eq!(idle.entries, 0);
    seen.assert_has_all_in_order(next + 60 * 300);
    session::stop();
}

#[test]
fn entries_of_writers_that_never_pause_are_delivered_exactly_once() {
    own_process!();
    let _session = start(64 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    let writer = || {
        std::thread::Builder::new()
            .spawn(|| record(0..200_000))
            .unwrap()
    };
    let writers: Vec<_> = (0..3).map(|_| writer()).collect();
    while writers.iter().any(|writer| !writer.is_finished()) {
        follower.advance(|found| seen.take(found)).unwrap();
    }
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    follower.advance(|found| seen.take(found)).unwrap();
    seen.assert_has_all_in_order(3 * 200_000);
    session::stop();
}

#[test]
fn entries_that_are_evicted_unread_are_counted_exactly() {
    own_process!();
    let _session = start(1 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    for round in 0..20 {
        record(0..2_000 * (round % 4));
        on_thread(|| record(0..1_500));
        if round % 3 == 0 {
            follower.advance(|found| seen.take(found)).unwrap();
        }
    }
    session::destroy_released_chunks_at_or_before(Timestamp::now());
    let mut missed = 0;
    for _ in 0..3 {
        missed = follower.advance(|found| seen.take(found)).unwrap().missed;
    }
    assert!(missed > 0);
    assert_eq!(seen.entries() + missed, committed());
    session::stop();
}

#[test]
fn entries_that_were_evicted_before_the_follower_opened_are_not_missed() {
    own_process!();
    let _session = start(1 << 20);
    record(0..100_000);
    let evicted = || committed() - delivered();
    let before = evicted();
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let mut seen = Seen::default();
    let mut missed = 0;
    for _ in 0..3 {
        missed = follower.advance(|found| seen.take(found)).unwrap().missed;
    }
    // The manager fills its stock of ready chunks after the last entry. The chunks that it evicts
    // for that may be unread.
    let meanwhile = evicted() - before;
    assert!(
        before > 20_000 && missed <= meanwhile,
        "{missed} missed, {meanwhile} evicted meanwhile"
    );
    assert!(seen.entries() + missed <= committed() - before);
    assert!(seen.entries() >= delivered() && seen.entries() < 100_000);
    session::stop();
}

/// The pool of a dead process; the test changes its bytes.
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
        Self {
            bytes: Rc::new(RefCell::new(bytes)),
            layout,
            thread,
        }
    }

    fn add(&self, region: Region, row: u64, word: u64, more: u64) {
        let at = usize::try_from(self.layout.region(region).offset + row + word * 8).unwrap();
        let word = &mut self.bytes.borrow_mut()[at..at + 8];
        let now = u64::from_ne_bytes((&*word).try_into().unwrap()) + more;
        word.copy_from_slice(&now.to_ne_bytes());
    }

    /// First step of an eviction: counts the chunk's entries.
    fn count(&self, chunk: usize) {
        let row = u64::from(self.thread.index.get()) * THREAD_BYTES;
        self.add(Region::Threads, row, 12, self.thread.chunks[chunk].entries);
    }

    /// Second step of an eviction: closes the slot.
    fn close(&self, chunk: usize) {
        self.add(
            Region::Directory,
            u64::from(self.thread.chunks[chunk].index.get()) * SLOT_BYTES,
            0,
            1,
        );
    }
}

#[test]
fn a_read_chunk_that_is_counted_as_evicted_before_it_is_closed_is_not_missed() {
    own_process!();
    let chunks = Chunks::record();
    let mut follower = Follower::open(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut missed = |advances: usize| {
        let last = (0..advances)
            .map(|_| follower.advance(|_| {}).unwrap().missed)
            .last();
        last.unwrap()
    };
    assert_eq!(missed(1), 0);
    chunks.count(0);
    chunks.close(0);
    chunks.count(1); // the writer is delayed, or dies, between the two steps
    assert_eq!(missed(5), 0, "both chunks had been read");
    chunks.close(1);
    assert_eq!(missed(3), 0);
}

#[test]
fn a_chunk_whose_eviction_has_begun_is_delivered_and_chunks_evicted_unread_later_are_missed() {
    own_process!();
    let chunks = Chunks::record();
    chunks.count(0);
    let mut follower = Follower::open(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut seen = Seen::default();
    let progress = follower
        .advance_within(1, |found| seen.take(found))
        .unwrap();
    assert!(progress.is_behind);
    assert_eq!(
        (seen.entries(), progress.missed),
        (chunks.thread.chunks[0].entries, 0)
    );
    chunks.close(0);
    for chunk in 1..3 {
        chunks.count(chunk);
        chunks.close(chunk);
    }
    let mut last = follower.advance(|found| seen.take(found)).unwrap();
    last = follower.advance(|found| seen.take(found)).unwrap_or(last);
    assert_eq!(
        last.missed,
        chunks.thread.chunks[1].entries + chunks.thread.chunks[2].entries
    );
    assert_eq!(seen.entries() + last.missed, chunks.thread.committed());
}

#[test]
fn a_follower_with_a_small_budget_reads_all_threads_in_turn_and_loses_nothing() {
    own_process!();
    const THREADS: usize = 4;
    let _session = start(64 << 20);
    let mut follower = Follower::open(session::pool_file().unwrap()).unwrap();
    let together = std::sync::Arc::new(std::sync::Barrier::new(THREADS));
    let writer = || {
        let together = std::sync::Arc::clone(&together);
        let body = move || {
            record(0..1);
            together.wait(); // each thread has its own row
            record(1..40_000);
        };
        std::thread::Builder::new().spawn(body).unwrap()
    };
    let writers: Vec<_> = (0..THREADS).map(|_| writer()).collect();
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    let mut seen = Seen::default();
    for _ in 0..THREADS {
        assert!(
            follower
                .advance_within(1, |found| seen.take(found))
                .unwrap()
                .is_behind
        );
    }
    assert_eq!(seen.0.len(), THREADS, "one thread has delayed the others");
    let advances = (0..10_000).take_while(|_| {
        follower
            .advance_within(1, |found| seen.take(found))
            .unwrap()
            .is_behind
    });
    assert!((1..10_000).contains(&advances.count()));
    seen.assert_has_all_in_order(THREADS as u64 * 40_000);
    session::stop();
}
