//! Tests of the backward reading of a pool.

use super::super::test_pool::TestPool;
use super::super::test_process::{TestProcess, sample};
use super::*;
use crate::sample_bytes::TestSample;
use crate::weights::Weight;
use crate::window::Window;

const S: u64 = 1_000_000_000;
const WINDOWS: [Window; 3] = [Window::TenSeconds, Window::Minute, Window::Start];

fn at(at_s: u64, sample: TestSample) -> TestSample {
    let at = at_s * S;
    TestSample { at, ..sample }
}

fn runs(at_s: u64, thread: u64, cpu_ns: u64) -> TestSample {
    at(at_s, sample(thread, &[1, thread], cpu_ns))
}

/// The thread does not run; with its whole stack, as at the start of a chunk.
fn stops(at_s: u64, thread: u64) -> TestSample {
    runs(at_s, thread, 0)
}

fn waits(at_s: u64, thread: u64) -> TestSample {
    let waits = true;
    TestSample {
        waits,
        ..stops(at_s, thread)
    }
}

/// Thread 7 waits from the first chunk to the third and from there to now, thread 8 from each chunk
/// to the next, and thread 9 runs.
fn waits_across_chunks() -> TestPool {
    TestPool::of(&[
        vec![
            runs(41, 9, 10_000),
            waits(42, 7),
            runs(43, 8, 20_000),
            waits(44, 8),
        ],
        vec![stops(46, 8), runs(47, 9, 30_000), waits(48, 8)],
        vec![
            stops(51, 8),
            runs(51, 7, 0),
            runs(52, 7, 40_000),
            waits(53, 8),
            waits(54, 7),
        ],
        vec![runs(55, 9, 50_000), stops(57, 8), runs(58, 8, 60_000)],
    ])
}

#[test]
fn a_pool_that_is_read_backward_has_the_sums_of_one_that_is_read_forward() {
    let pool = waits_across_chunks();
    let mut forward = TestProcess::oldest_first(&pool);
    let mut backward = TestProcess::newest_first(&pool);
    for process in [&mut forward, &mut backward] {
        process.now_ns = 60 * S.cast_signed();
    }
    assert_eq!(forward.read_all(), 4, "a pass reads one chunk");
    assert_eq!(backward.read_all(), 3, "and one that grows");
    for window in WINDOWS {
        assert_eq!(backward.sums(window), forward.sums(window), "{window:?}");
    }
    let sums = backward.sums(Window::Start);
    let of = |thread| {
        let of_thread = sums
            .iter()
            .filter(|((tid, _), _)| *tid == ThreadId::new(thread));
        of_thread.fold(Weight::default(), |sum, (_, weight)| sum.plus(*weight))
    };
    let time = |on_ns, off_ns| Weight { on_ns, off_ns };
    assert_eq!(of(7), time(40_000, 9 * S + 5 * S + S / 2), "it still waits");
    assert_eq!(of(8), time(80_000, (2 + 3 + 4) * S));
    assert_eq!(of(9), time(90_000, 0));
}

#[test]
fn the_latest_samples_of_a_pool_that_is_read_backward_are_complete() {
    let pool = waits_across_chunks();
    let kept = |mut process: TestProcess| {
        process.now_ns = 59 * S.cast_signed();
        process.read_all();
        let kept = process.process.recent.iter();
        let mut kept: Vec<_> = kept.map(|one| (one.to_ns, one.weight.on_ns)).collect();
        // A sample that was put off is kept before the chunk that contains it.
        kept.sort_unstable();
        kept
    };
    let forward = kept(TestProcess::oldest_first(&pool));
    let backward = kept(TestProcess::newest_first(&pool));
    assert!(forward.len() > 3, "{forward:?}");
    assert_eq!(backward, forward);
}
