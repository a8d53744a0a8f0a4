//! Tests of the threads of one process.

use profiler_core::ids::ThreadIndex;
use profiler_core::session::{DropReason, Drops};

use super::*;
use crate::weights::Weight;

const TID: ThreadId = ThreadId::new(7);
const NODE: NodeNumber = NodeNumber(1);

fn row(tid: ThreadId, name: &str, registered: u64) -> ThreadInfo {
    ThreadInfo {
        index: ThreadIndex::new(1),
        tid,
        name: name.to_owned(),
        is_main: false,
        registered: Timestamp::from_raw(registered),
        ended: None,
        dropped: Drops::new([0; DropReason::COUNT]),
        evicted: 0,
        sealed: 0,
        chunks: Vec::new(),
    }
}

fn name(table: &mut ThreadTable, tid: ThreadId, at: u64) -> String {
    let number = table.number(tid, Timestamp::from_raw(at));
    table.all()[number.0 as usize].name.clone()
}

/// A sample without processor time.
fn idle(at_ns: i64, waits: bool) -> SampleTimes {
    SampleTimes {
        at_ns,
        cpu_ns: Some(0),
        span_ns: 1,
        waits,
        is_repeated: !waits,
    }
}

#[test]
fn a_thread_has_its_number_as_its_name_until_it_registers() {
    let mut table = ThreadTable::default();
    let number = table.number(TID, Timestamp::from_raw(5));
    assert!(table.has_unnamed());
    assert_eq!(name(&mut table, TID, 5), thread_without_row(TID));
    table.take_rows(vec![row(TID, "worker", 9)]);
    assert_eq!(name(&mut table, TID, 5), "worker");
    assert_eq!(table.number(TID, Timestamp::from_raw(10)), number);
    assert!(!table.has_unnamed());
}

#[test]
fn a_thread_with_the_number_of_an_ended_thread_is_another_thread() {
    let mut table = ThreadTable::default();
    table.take_rows(vec![row(TID, "old", 10)]);
    assert_eq!(name(&mut table, TID, 12), "old");
    table.take_rows(vec![row(TID, "new", 20)]);
    assert_eq!(name(&mut table, TID, 25), "new");
    assert_eq!(name(&mut table, TID, 15), "old", "a sample from before");
    assert_eq!(table.all().len(), 2);
    // Both rows are in the table when it is read for the first time, in any order.
    for rows in [[("old", 10), ("new", 20)], [("new", 20), ("old", 10)]] {
        let mut table = ThreadTable::default();
        let rows = rows.map(|(name, registered)| row(TID, name, registered));
        table.take_rows(rows.to_vec());
        assert_eq!(name(&mut table, TID, 30), "new");
        assert_eq!(name(&mut table, TID, 10), "old");
        assert_eq!(name(&mut table, TID, 1), "old");
    }
}

#[test]
fn a_thread_that_changes_its_name_is_the_same_thread() {
    let mut table = ThreadTable::default();
    table.take_rows(vec![row(TID, "before", 10)]);
    let number = table.number(TID, Timestamp::from_raw(12));
    table.take_rows(vec![row(TID, "after", 10)]);
    assert_eq!(table.number(TID, Timestamp::from_raw(13)), number);
    assert_eq!(name(&mut table, TID, 13), "after");
}

#[test]
fn a_thread_that_registers_again_under_its_name_is_the_same_thread() {
    let mut table = ThreadTable::default();
    for registered in [10, 20] {
        table.take_rows(vec![row(TID, "worker", registered)]);
        assert_eq!(name(&mut table, TID, registered + 5), "worker");
    }
    assert_eq!(table.all().len(), 1);
}

#[test]
fn threads_beyond_the_limit_share_a_name_and_not_their_usage() {
    let mut table = ThreadTable::default();
    for tid in 1..=u64::from(MAX_THREADS) + 10 {
        table.number(ThreadId::new(tid), Timestamp::ZERO);
    }
    assert_eq!(table.all().len(), MAX_THREADS as usize);
    let [one, other] = [MAX_THREADS + 1, MAX_THREADS + 2].map(|tid| ThreadId::new(tid.into()));
    assert_eq!(name(&mut table, one, 0), OTHER_THREADS);
    assert_eq!(table.number(other, Timestamp::ZERO), OTHERS);
    let first = ThreadId::new(1);
    assert_eq!(name(&mut table, first, 0), thread_without_row(first));
    // One thread waits, while the other runs.
    table.spent(OTHERS, one, &idle(100, true), NODE);
    let runs = SampleTimes {
        cpu_ns: Some(10),
        ..idle(200, false)
    };
    let spent = table.spent(OTHERS, other, &runs, NODE);
    assert_eq!((spent.on, spent.wait), (Weight::on(10), None));
    let waits: Vec<_> = table.waits(300).collect();
    assert_eq!(waits, [(OTHERS, NODE, (100, 300))]);
    let spent = table.spent(OTHERS, one, &idle(350, false), NODE);
    assert_eq!(spent.wait, Some((300, 350)));
}

#[test]
fn what_is_kept_of_other_threads_is_bounded_and_their_waits_are_counted_once() {
    let mut table = ThreadTable::default();
    let tids = (1..=MAX_OTHERS as u64 + 3).map(ThreadId::new);
    for tid in tids.clone() {
        table.spent(OTHERS, tid, &idle(100, true), NODE);
    }
    assert_eq!(table.others.len(), MAX_OTHERS);
    assert_eq!(table.waits(200).count(), MAX_OTHERS);
    for tid in tids {
        table.spent(OTHERS, tid, &idle(200, false), NODE);
    }
    assert_eq!(table.waits(300).count(), 0);
    assert_eq!(table.others.len(), 0, "threads that do not wait are kept");
}

#[test]
fn a_wait_in_an_older_chunk_that_has_ended_in_a_newer_one_does_not_go_on() {
    let mut table = ThreadTable::newest_first();
    let tids = (1..=MAX_OTHERS as u64 / 2 + 8).map(ThreadId::new);
    let runs = SampleTimes {
        cpu_ns: Some(10),
        ..idle(1000, false)
    };
    for tid in tids.clone() {
        table.spent(OTHERS, tid, &runs, NODE);
    }
    assert_eq!(table.waits(1100).count(), 0);
    for tid in tids {
        let mut older = ThreadUsage::default();
        older.next_or_begin(&idle(100, true), NODE);
        table.precede(OTHERS, tid, older);
    }
    assert_eq!(table.waits(1200).count(), 0, "no thread waits any more");
    table.end_older();
    assert_eq!(table.waits(1300).count(), 0);
    assert_eq!(table.others.len(), 0, "threads that do not wait are kept");
}

#[test]
fn rows_of_a_forged_thread_table_take_bounded_memory() {
    let mut table = ThreadTable::default();
    let forged = |round: u64| -> Vec<ThreadInfo> {
        let row = |number: u64| {
            let name = (round + number).to_string();
            row(ThreadId::new(number / 2), &name, round + number)
        };
        (0..4 * MAX_TIDS as u64).map(row).collect()
    };
    for round in 0..3 {
        table.take_rows(forged(round * 100_000));
        assert!(table.lives.len() <= MAX_TIDS);
        table.number(ThreadId::new(1), Timestamp::MAX);
    }
    for registered in 0..100 {
        table.take_rows(vec![row(TID, &registered.to_string(), registered)]);
        table.number(TID, Timestamp::MAX);
    }
    assert_eq!(table.lives[&TID].len(), MAX_LIVES);
}
