//! Tests of the chunk manager: one for each known defect of Gecko's manager, and for other rules
//! about destroying and reporting chunks.

use super::*;
use crate::manager::maintenance;

fn listed(update: &Update) -> Vec<u64> {
    update
        .newly_released
        .iter()
        .map(|chunk| chunk.done.raw())
        .collect()
}

#[test]
fn a_chunk_released_out_of_order_is_reported_once() {
    let mut bench = Bench::new(64);
    bench.listen();
    bench.heard();
    let (row, _) = bench.thread();
    let held: Vec<_> = (0..3).map(|_| bench.take(0, row).unwrap()).collect();
    held.iter()
        .for_each(|held| assert_eq!(bench.write(*held, 1), 1));
    let [first, second, third] = [1000, 2000, 3000].map(Timestamp::from_raw);
    bench.hand_over_at(held[0], first);
    bench.hand_over_at(held[2], third);
    bench.collect();
    bench.manager.report(false);
    assert_eq!(listed(&bench.one_report()), [1000, 3000]);
    bench.hand_over_at(held[1], second);
    bench.collect();
    bench.manager.report(false);
    assert_eq!(
        listed(&bench.one_report()),
        [2000],
        "only the late chunk, not the younger ones again"
    );
}

#[test]
fn chunks_of_the_same_instant_are_both_listed_and_both_destroyed() {
    let mut bench = Bench::new(64);
    bench.listen();
    bench.heard();
    let (row, _) = bench.thread();
    for _ in 0..2 {
        let held = bench.take(0, row).unwrap();
        bench.write(held, 1);
        bench.hand_over_at(held, Timestamp::from_raw(500));
    }
    bench.collect();
    bench.manager.report(false);
    assert_eq!(listed(&bench.one_report()), [500, 500]);
    bench.manager.destroy_at_or_before(Timestamp::from_raw(500));
    assert_eq!(bench.one_report().released_bytes, 0);
}

#[test]
fn a_new_listener_receives_chunks_released_earlier() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let done = [bench.released(row, 1), bench.released(row, 1)].map(Timestamp::raw);
    bench.listen();
    let update = bench.one_report();
    assert_eq!(listed(&update), done);
    assert_eq!(
        (
            update.released_bytes,
            update.oldest_done.map(Timestamp::raw)
        ),
        (2 * PAGE, Some(done[0]))
    );
    bench.manager.report(true);
    assert_eq!(listed(&bench.one_report()), [0; 0], "and only once");
}

#[test]
fn recycled_chunks_tables_and_the_header_are_counted() {
    let mut bench = Bench::new(64);
    bench.listen();
    let (row, _) = bench.thread();
    bench.released(row, 1);
    bench.heard();
    maintenance::pass(&bench.manager, None);
    let update = bench.one_report();
    assert!(bench.manager.ready.count(0) > 0);
    assert_eq!(update.held_bytes(), bench.used());
    assert!(
        bench.allocated() <= update.held_bytes(),
        "memory is missing from the report"
    );
    assert_eq!(update.released_bytes, PAGE);
}

#[test]
fn destroying_is_always_followed_by_an_update() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let done = bench.released(row, 1);
    bench.listen();
    bench.heard();
    bench.manager.destroy_at_or_before(done);
    let update = bench.one_report();
    assert_eq!((update.released_bytes, update.oldest_done), (0, None));
    bench.manager.destroy_at_or_before(done);
    assert_eq!(
        bench.one_report().oldest_done,
        None,
        "also when there is nothing to destroy"
    );
}

#[test]
fn a_chunk_released_and_destroyed_between_two_reports_is_in_neither() {
    let mut bench = Bench::new(64);
    bench.listen();
    bench.heard();
    let (row, _) = bench.thread();
    let done = bench.released(row, 1);
    bench.manager.destroy_at_or_before(done);
    assert_eq!(listed(&bench.one_report()), [0; 0]);
}

#[test]
fn the_old_listener_receives_final_and_then_nothing() {
    let mut bench = Bench::new(64);
    bench.listen();
    bench.heard();
    bench.manager.set_listener(None);
    let (row, _) = bench.thread();
    bench.released(row, 1);
    bench.manager.report(true);
    assert_eq!(bench.heard(), [ManagerUpdate::Final]);
}

#[test]
fn with_nothing_released_the_limit_is_not_exceeded() {
    let mut bench = Bench::new(16);
    let (row, _) = bench.thread();
    let mut held = 0;
    while bench.take(0, row).is_ok() {
        held += 1;
        assert!(bench.used() <= bench.allowed());
    }
    assert!(held > 0 && held < 16);
    assert_eq!(bench.take(0, row).unwrap_err(), NoChunk::NoBudget);
    bench.listen();
    assert!(
        bench.one_report().wanted_bytes >= PAGE,
        "the unmet request is reported"
    );
}

#[test]
fn chunks_are_made_ready_ahead_without_a_sampler() {
    let bench = Bench::new(256);
    assert_eq!(bench.manager.ready.count(0), 0);
    maintenance::pass(&bench.manager, None);
    let index = bench.manager.ready.take(0).unwrap();
    let slot = bench.manager.pool().slot(index).unwrap();
    assert_eq!((slot.bytes(), slot.done_time()), (PAGE, Timestamp::ZERO));
    // The chunks that a burst requested are ready after the next pass, larger classes too.
    (0..3).for_each(|_| bench.manager.ready.wish(2));
    maintenance::pass(&bench.manager, None);
    assert!(bench.manager.ready.count(2) >= 2);
}

#[test]
fn destroyed_chunks_give_their_memory_back_at_once() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let before = (bench.used(), bench.allocated());
    let mut last = Timestamp::ZERO;
    for _ in 0..5 {
        last = bench.released(row, 256);
    }
    assert!(bench.allocated() >= before.1 + 5 * PAGE);
    bench.manager.destroy_at_or_before(last);
    // One page of the directory is touched now; the chunks' own pages are gone.
    assert!(bench.used() <= before.0 + PAGE && bench.allocated() <= before.1 + 2 * PAGE);
}

#[test]
fn a_lowered_allowance_destroys_the_oldest_first_and_is_reported() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let done: Vec<_> = (0..6).map(|_| bench.released(row, 1)).collect();
    bench.listen();
    bench.heard();
    bench
        .manager
        .set_allowance(ByteLimit::new(bench.used() - 2 * PAGE));
    let update = bench.one_report();
    assert_eq!(update.oldest_done, Some(done[2]));
    assert_eq!(update.held_bytes(), update.allowance.get());
    assert_eq!(bench.manager.pool().thread_row(row).unwrap().evicted().0, 2);
}

#[test]
fn a_chunk_handed_over_late_is_listed_as_younger_than_destroyed_ones() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let late = bench.take(0, row).unwrap();
    bench.write(late, 1);
    let left_at = bench.tick();
    let gone = bench.released(row, 1);
    bench.manager.destroy_at_or_before(gone);
    bench.hand_over_at(late, left_at);
    bench.collect();
    assert!(bench.manager.lock().chunks.oldest_done().unwrap() > gone);
}

#[test]
fn above_a_lowered_allowance_a_released_chunk_is_destroyed_and_not_recycled() {
    let mut bench = Bench::new(64);
    let (row, _) = bench.thread();
    let held: Vec<_> = (0..8).map(|_| bench.take(0, row).unwrap()).collect();
    held.iter()
        .for_each(|held| assert_eq!(bench.write(*held, 1), 1));
    bench
        .manager
        .set_allowance(ByteLimit::new(bench.used() - 4 * PAGE));
    held.into_iter()
        .for_each(|held| assert!(bench.hand_over(held) > Timestamp::ZERO));
    bench.collect();
    bench.take(0, row).unwrap();
    assert!(bench.used() <= bench.allowed());
}

#[test]
fn a_recording_thread_gets_the_oldest_chunk_that_is_large_enough_or_none() {
    let mut bench = Bench::new(24);
    let (row, _) = bench.thread();
    let small = bench.released(row, 1);
    while bench
        .manager
        .lock()
        .chunks
        .take_free(&bench.manager, 0)
        .is_ok()
    {}
    let at_once = |bench: &Bench, least| {
        bench
            .manager
            .lock()
            .chunks
            .acquire_at_once(&bench.manager, least, least.max(2))
    };
    assert_eq!(
        at_once(&bench, 1),
        Err(NoChunk::NoBudget),
        "one page is too small"
    );
    assert_eq!(
        bench.manager.lock().chunks.oldest_done(),
        Some(small),
        "the chunk is not destroyed"
    );
    let used = bench.used();
    let index = at_once(&bench, 0).unwrap();
    assert_eq!(
        (bench.used(), bench.manager.pool().budget().take_wanted()),
        (used, 2 * 4 * PAGE),
        "recycled"
    );
    let held = bench.opened(index, row);
    bench.write(held, 1);
    bench.hand_over(held);
    bench.collect();
    bench.manager.set_allowance(ByteLimit::new(20 * PAGE));
    assert_eq!(
        at_once(&bench, 0),
        Err(NoChunk::NoBudget),
        "more is held than allowed"
    );
}

#[test]
fn an_unrequested_stock_is_destroyed_and_reported() {
    let bench = Bench::new(512);
    bench.listen();
    bench.manager.ready.wish(2);
    maintenance::pass(&bench.manager, None);
    assert!(bench.manager.ready.count(2) > 0 && maintenance::clear_left_over_stock(&bench.manager));
    let used = bench.used();
    let _ = bench.heard();
    assert!(
        !maintenance::clear_left_over_stock(&bench.manager),
        "nothing larger than a page is left"
    );
    maintenance::pass(&bench.manager, None);
    assert_eq!(
        bench.manager.ready.count(2),
        0,
        "and none is made ready again"
    );
    let update = bench.one_report();
    assert!(
        update.held_bytes() < used && update.held_bytes() == bench.used(),
        "{update:?}"
    );
    assert!(bench.allocated() <= bench.used());
}

#[test]
fn a_repeated_allowance_is_enforced_again() {
    let mut bench = Bench::new(100);
    let (row, _) = bench.thread();
    let held = bench.take(3, row).unwrap();
    bench.write(held, 1);
    bench.manager.set_allowance(ByteLimit::new(10 * PAGE));
    assert!(
        bench.used() > bench.allowed(),
        "a chunk that a thread writes into is not destroyed"
    );
    bench.hand_over(held);
    bench.manager.set_allowance(ByteLimit::new(10 * PAGE));
    assert!(
        bench.used() <= bench.allowed(),
        "destroyed once the thread has left it"
    );
}

#[test]
fn a_row_that_was_kept_for_another_thread_meanwhile_is_not_taken() {
    let bench = Bench::new(64);
    let pool = bench.manager.pool();
    let threads = &bench.manager.threads;
    let found = |tid| NewThread {
        tid: ThreadId::new(tid),
        is_main: false,
        name: "found",
        at: Timestamp::now(),
    };
    let row = threads.keep_found(pool, found(7)).unwrap();
    let kept = pool.thread_row(row).unwrap();
    let seen = kept.thread().unwrap();
    assert_eq!(threads.take_row(pool, row, seen.own), Some(seen.own));
    threads.end(pool, row, seen.own, Timestamp::now());
    kept.free();
    threads.put(row);
    assert_eq!(
        threads.keep_found(pool, found(8)),
        Some(row),
        "the same row"
    );
    assert_eq!(
        threads.take_row(pool, row, seen.own),
        None,
        "it is kept for thread 8"
    );
    assert_eq!(
        kept.thread().map(|now| (now.tid, now.is_kept)),
        Some((ThreadId::new(8), true))
    );
}
