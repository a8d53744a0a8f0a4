//! Tests of the samples of one process.

use super::test_process::{TestProcess, sample};
use super::*;
use crate::sample_bytes::TestSample;

const SECOND: i64 = 1_000_000_000;
const S: u64 = 1_000_000_000;

fn waits(thread: u64, stack: &[u64]) -> TestSample {
    TestSample {
        waits: true,
        ..sample(thread, stack, 0)
    }
}

fn recent(process: &TestProcess) -> Weight {
    let kept = process.process.recent.iter().map(|one| one.weight);
    kept.fold(Weight::default(), Weight::plus)
}

fn all(process: &TestProcess) -> Weight {
    let cells = process.process.weights.within(None);
    cells.fold(Weight::default(), |sum, cell| sum.plus(cell.weight))
}

#[test]
fn a_wait_that_lasts_is_among_the_latest_samples() {
    let mut process = TestProcess::new(PoolId::new(1));
    process.now_ns = 10 * SECOND;
    process.take(8 * S, waits(7, &[1, 2]));
    assert_eq!(recent(&process), Weight::default());
    process.count_waits(9 * SECOND);
    assert_eq!(recent(&process), Weight::off(S));
    let end = sample(7, &[1, 2], 0);
    process.take(10 * S, end);
    let two = Weight::off(2 * S);
    assert_eq!((recent(&process), all(&process)), (two, two));
    let ranges = process.process.recent.iter();
    let ranges: Vec<_> = ranges.map(|one| (one.from_ns, one.to_ns)).collect();
    let [from, middle, to] = [8 * SECOND, 9 * SECOND, 10 * SECOND];
    assert_eq!(ranges, [(from, middle), (middle, to)]);
}

#[test]
fn the_latest_samples_have_their_threads() {
    let mut process = TestProcess::new(PoolId::new(1));
    process.take(0, sample(7, &[1], 10));
    process.take(0, sample(8, &[1], 20));
    process.take(0, sample(7, &[1], 30));
    let of = |sample: &RecentSample| {
        let thread = &process.process.threads.all()[sample.thread.0 as usize];
        (thread.tid.get(), sample.weight.on_ns)
    };
    let kept: Vec<_> = process.process.recent.iter().map(of).collect();
    assert_eq!(kept, [(7, 10), (8, 20), (7, 30)]);
}
