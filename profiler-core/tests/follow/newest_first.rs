//! Followers that read the newest entries first: every entry is delivered once, chunk by chunk,
//! also while the process goes on recording and evicts entries that were not read.

use std::rc::Rc;

use profiler_core::internal::entry::Entry;
use profiler_core::internal::pool::layout::{Region, SLOT_BYTES};
use profiler_core::internal::reader::{ByteSource, Followed, Follower, Progress};
use profiler_core::session;
use profiler_core::time::Timestamp;
use test_support::own_process;
use test_support::threads::on_thread;

use super::{Chunks, Still, counts, number, record, start};

fn take(found: &Followed<'_>, numbers: &mut Vec<u64>) {
    if let Entry::Marker(marker) = &found.entry {
        numbers.push(number(marker));
    }
}

/// The numbers that an advance delivers, and its progress.
fn forward(follower: &mut Follower<impl ByteSource>) -> (Vec<u64>, Progress) {
    let mut numbers = Vec::new();
    let progress = follower.advance(|found| take(found, &mut numbers));
    (numbers, progress.unwrap())
}

/// The same for the next older chunk; `None` if there is none.
fn backward(follower: &mut Follower<impl ByteSource>) -> Option<(Vec<u64>, Progress)> {
    let mut numbers = Vec::new();
    let progress = follower.advance_backward(|found| take(found, &mut numbers));
    Some((numbers, progress.unwrap()?))
}

/// The number of entries in all older chunks.
fn all_older(follower: &mut Follower<impl ByteSource>) -> usize {
    std::iter::from_fn(|| backward(follower))
        .map(|(numbers, _)| numbers.len())
        .sum()
}

#[test]
fn the_newest_entries_come_first_and_each_entry_once_while_its_process_records() {
    own_process!();
    const BEFORE: u64 = 40_000;
    let _session = start(64 << 20);
    record(0..BEFORE);
    let mut follower = Follower::open_newest_first(session::pool_file().unwrap()).unwrap();
    let (newest, _) = forward(&mut follower);
    let mut oldest = newest.first().copied().unwrap_or(BEFORE);
    let (mut all, mut later, mut next) = (newest.len(), Vec::new(), BEFORE);
    let mut until = Timestamp::MAX;
    while let Some(older_until) = follower.older_until() {
        assert!(older_until <= until, "an older chunk was read first");
        until = older_until;
        record(next..next + 700);
        next += 700;
        later.extend(forward(&mut follower).0);
        let (chunk, progress) = backward(&mut follower).unwrap();
        assert!(chunk.is_sorted() && chunk.last() < Some(&oldest));
        assert_eq!(progress.entries, chunk.len() as u64);
        oldest = chunk.first().copied().unwrap_or(oldest);
        all += chunk.len();
    }
    assert!(later.len() > 700, "fewer than two chunks were put off");
    assert!(backward(&mut follower).is_none());
    later.extend(forward(&mut follower).0);
    assert!(later.is_sorted_by(|one, other| one < other));
    assert!(newest.last() < later.first());
    let counts = counts();
    assert_eq!(
        ((all + later.len()) as u64, 0),
        (counts.delivered, counts.evicted)
    );
    session::stop();
}

#[test]
fn the_chunks_of_threads_that_have_ended_are_read_in_the_order_of_their_times() {
    own_process!();
    const THREADS: u64 = 8;
    let _session = start(16 << 20);
    for thread in 0..THREADS {
        on_thread(move || record(thread * 10..thread * 10 + 10));
    }
    let mut follower = Follower::open_newest_first(session::pool_file().unwrap()).unwrap();
    let (mut numbers, _) = forward(&mut follower);
    assert!(follower.older_until().is_some(), "nothing was put off");
    let mut oldest = numbers.iter().min().copied().unwrap_or(u64::MAX);
    while let Some((chunk, _)) = backward(&mut follower) {
        assert!(chunk.is_sorted() && chunk.last() < Some(&oldest));
        oldest = chunk.first().copied().unwrap_or(oldest);
        numbers.extend(chunk);
    }
    let counts = counts();
    assert_eq!(
        (numbers.len() as u64, 0),
        (counts.delivered, counts.evicted)
    );
    session::stop();
}

#[test]
fn an_advance_does_not_deliver_what_was_put_off_and_what_is_evicted_before_its_turn_is_counted() {
    own_process!();
    let chunks = Chunks::record();
    let mut follower = Follower::open_newest_first(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut seen = forward(&mut follower).0.len();
    assert!(forward(&mut follower).0.is_empty());
    chunks.count(0);
    chunks.close(0);
    seen += all_older(&mut follower);
    let last = (0..3).map(|_| forward(&mut follower)).last();
    let (numbers, progress) = last.unwrap();
    let gone = chunks.thread.chunks[0].entries;
    assert_eq!((numbers.len(), progress.missed), (0, 0));
    assert_eq!(progress.evicted_before, gone);
    assert_eq!(seen as u64 + gone, chunks.thread.committed());
}

#[test]
fn a_chunk_that_gets_another_life_before_its_turn_is_delivered_by_an_advance() {
    own_process!();
    let chunks = Chunks::record();
    let mut follower = Follower::open_newest_first(Still(Rc::clone(&chunks.bytes))).unwrap();
    let mut seen = forward(&mut follower).0.len();
    // The slot is closed, and opened again with entries that are equal to those before.
    let slot = u64::from(chunks.thread.chunks[1].index.get()) * SLOT_BYTES;
    chunks.add(Region::Directory, slot, 0, 2);
    seen += all_older(&mut follower);
    let entries = chunks.thread.chunks[1].entries;
    assert_eq!(seen as u64 + entries, chunks.thread.committed());
    assert_eq!(forward(&mut follower).0.len() as u64, entries);
    assert!(forward(&mut follower).0.is_empty());
}
