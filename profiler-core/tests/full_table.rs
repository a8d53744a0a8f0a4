//! Test of threads that have no row because the table is full: their entries are counted, and an
//! entry allocates nothing.

use std::sync::mpsc;

use crate::support;
use profiler_core::ids::ByteLimit;
use profiler_core::marker;
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::counting::allocations_of;
use test_support::own_process;

const EACH: u64 = 1000;

/// Records `EACH` entries. Returns the number of allocations after the first entry.
fn record() -> u64 {
    let record_one = || marker!("one");
    record_one();
    allocations_of(|| (1..EACH).for_each(|_| record_one()))
}

fn refused() -> u64 {
    let counts = support::snapshot().counts();
    counts.dropped.of(DropReason::NoDefinitions)
}

#[test]
fn a_thread_without_a_row_allocates_nothing_per_entry() {
    own_process!();
    const THREADS: u64 = 60;
    // Space for the tables and a chunk, but not for the rows of all threads.
    let params = SessionParams {
        limit: ByteLimit::new(10 * 4096),
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut without_row = 0;
    let mut alive = Vec::new();
    for _ in 0..THREADS {
        let before = refused();
        let sender = sender.clone();
        let (release, released) = mpsc::channel::<()>();
        alive.push(release);
        let body = move || {
            sender.send(record()).unwrap();
            let _ = released.recv(); // keeps its row, if it has one, until all have recorded
        };
        std::thread::Builder::new().spawn(body).unwrap();
        let allocations = receiver.recv().unwrap();
        if refused() - before == EACH {
            without_row += 1;
            assert_eq!(allocations, 0, "allocations in {EACH} entries");
        }
    }
    assert!(without_row > 0, "every thread had a row");
    let counts = support::snapshot().counts();
    assert_eq!(counts.recorded(), THREADS * EACH, "{counts:?}");
    session::stop();
}
