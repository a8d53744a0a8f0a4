//! Test of the pool of a dead process, as the parent uses it: destroyed entries stay counted.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::support::{self};
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::pool::layout::Region;
use profiler_core::internal::reader::PoolReader;
use profiler_core::marker;
use profiler_core::session::EntryCounts;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;
use test_support::own_process;

/// This process has the role of the dead one; the file of its pool is what the parent would hold.
#[test]
fn entries_of_an_open_chunk_are_evicted_and_counted() {
    own_process!();
    let params = SessionParams::default();
    let spec = support::pool_spec(&params);
    let file = spec.create_pool().unwrap();
    let counts = || -> EntryCounts {
        PoolReader::open(&file)
            .unwrap()
            .snapshot()
            .unwrap()
            .counts()
    };
    session::attach(file.try_clone().unwrap()).unwrap();
    session::start(params, StartOptions::default()).unwrap();
    for _ in 0..10_000 {
        marker!("recorded");
    }
    session::close_pool();
    assert_eq!((counts().delivered, counts().recorded()), (10_000, 10_000));
    check_no_chunk_is_from_the_future(&file);
    let mut dead_pool =
        DeadPool::open(OwnFile::from(file.try_clone().unwrap()), Timestamp::now()).unwrap();
    let oldest = dead_pool.chunks()[0].done;
    let before = dead_pool.held_bytes().unwrap();
    assert!(dead_pool.destroy_at_or_before(oldest).unwrap() < before);
    assert!(counts().delivered < 10_000);
    assert_eq!(counts().recorded(), 10_000);
    dead_pool.destroy_at_or_before(Timestamp::MAX).unwrap();
    assert_eq!((counts().delivered, counts().evicted), (0, 10_000));
    assert!(dead_pool.chunks().is_empty());
}

/// Checks that a time later than the death of the process, in a slot, does not keep the chunk
/// alive.
fn check_no_chunk_is_from_the_future(file: &File) {
    let layout = PoolReader::open(file).unwrap().header().layout;
    let done = layout.region(Region::Directory).offset + 4 * 8;
    let mut before = [0; 8];
    file.read_exact_at(&mut before, done).unwrap();
    file.write_all_at(&u64::MAX.to_ne_bytes(), done).unwrap();
    let died = Timestamp::now();
    let dead_pool = DeadPool::open(OwnFile::from(file.try_clone().unwrap()), died).unwrap();
    assert!(dead_pool.chunks().iter().all(|chunk| chunk.done <= died));
    file.write_all_at(&before, done).unwrap();
}
