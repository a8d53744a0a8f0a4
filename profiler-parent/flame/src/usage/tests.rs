//! Tests of the usage of one thread.

use proptest::prelude::*;

use super::*;

const NODE: NodeNumber = NodeNumber(1);
const RUNS: SampleTimes = SampleTimes {
    at_ns: 0,
    cpu_ns: Some(10),
    span_ns: 10,
    waits: false,
    is_repeated: false,
};
const WAITS: SampleTimes = SampleTimes {
    cpu_ns: Some(0),
    waits: true,
    ..RUNS
};
const STOPS: SampleTimes = SampleTimes {
    cpu_ns: Some(0),
    is_repeated: true,
    ..RUNS
};

fn at(times: SampleTimes, at_ns: i64) -> SampleTimes {
    SampleTimes { at_ns, ..times }
}

#[test]
fn a_wait_is_counted_while_it_lasts_and_not_again_at_its_end() {
    let mut usage = ThreadUsage::default();
    assert_eq!(usage.next(&at(RUNS, 50), NODE).on, Weight::on(10));
    assert_eq!(usage.next(&at(WAITS, 100), NODE), Spent::default());
    assert_eq!(usage.advance(150), Some((NODE, (100, 150))));
    assert_eq!(usage.advance(150), None);
    assert_eq!(usage.next(&at(STOPS, 180), NODE).wait, Some((150, 180)));
    assert_eq!(usage.advance(900), None, "the wait has ended");
}

#[test]
fn a_wait_that_ended_before_it_was_counted_is_not_counted_again() {
    let mut usage = ThreadUsage::default();
    usage.next(&at(WAITS, 100), NODE);
    usage.advance(200);
    assert_eq!(usage.next(&at(STOPS, 150), NODE), Spent::default());
}

#[test]
fn a_long_wait_with_entries_in_between_is_one_wait() {
    let mut usage = ThreadUsage::default();
    usage.next(&at(WAITS, 100), NODE);
    let goes_on = SampleTimes {
        waits: true,
        ..STOPS
    };
    assert_eq!(usage.next(&at(goes_on, 300), NODE).wait, Some((100, 300)));
    assert_eq!(usage.next(&at(STOPS, 400), NODE).wait, Some((300, 400)));
}

#[test]
fn a_thread_that_did_not_run_waited_for_the_ticks_of_its_sample() {
    let mut usage = ThreadUsage::default();
    usage.next(&at(RUNS, 100), NODE);
    let idle = SampleTimes {
        span_ns: 40,
        ..STOPS
    };
    assert_eq!(usage.next(&at(idle, 200), NODE).wait, Some((160, 200)));
    assert_eq!(
        usage.next(&at(idle, 210), NODE).wait,
        Some((200, 210)),
        "nothing before the latest sample"
    );
}

#[test]
fn a_wait_that_goes_on_in_another_chunk_is_one_wait() {
    // The stack is recorded again in whole.
    let whole = SampleTimes {
        is_repeated: false,
        span_ns: 900,
        ..STOPS
    };
    let unmeasured = SampleTimes {
        cpu_ns: None,
        ..whole
    };
    let goes_on = SampleTimes {
        waits: true,
        ..whole
    };
    for end in [whole, unmeasured, goes_on] {
        let mut usage = ThreadUsage::default();
        usage.next(&at(WAITS, 100), NODE);
        assert_eq!(usage.advance(900), Some((NODE, (100, 900))));
        let spent = usage.next(&at(end, 1000), NODE);
        let wait = Some((900, 1000));
        assert_eq!((spent.on, spent.wait), (Weight::default(), wait), "{end:?}");
        let after = end.waits.then_some((NODE, (1000, 1100)));
        assert_eq!(usage.advance(1100), after);
    }
}

#[test]
fn time_that_is_counted_as_a_wait_is_not_counted_for_another_stack() {
    let mut usage = ThreadUsage::default();
    usage.next(&at(WAITS, 100), NODE);
    usage.advance(900);
    let elsewhere = SampleTimes {
        is_repeated: false,
        span_ns: 900,
        ..STOPS
    };
    let spent = usage.next(&at(elsewhere, 1000), NodeNumber(2));
    assert_eq!(spent.wait, Some((900, 1000)));
}

/// The time of each of two stacks: on the processor, and off it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums([(u64, u64); 2]);

impl Sums {
    fn add(&mut self, node: NodeNumber, spent: Spent) {
        let (on, off) = &mut self.0[node.0 as usize];
        *on += spent.on.on_ns;
        *off += spent
            .wait
            .map_or(0, |(from, to)| (to - from).unsigned_abs());
    }
}

fn read_in_order(chunks: &[Vec<(SampleTimes, NodeNumber)>], end_ns: i64) -> Sums {
    let (mut usage, mut sums) = (ThreadUsage::default(), Sums::default());
    for (times, node) in chunks.iter().flatten() {
        let spent = usage.next(times, *node);
        sums.add(*node, spent);
    }
    count_open(&mut usage, end_ns, &mut sums);
    sums
}

fn read_backward(chunks: &[Vec<(SampleTimes, NodeNumber)>], end_ns: i64) -> Sums {
    let (mut all, mut sums) = (ThreadUsage::default(), Sums::default());
    for chunk in chunks.iter().rev() {
        let mut usage = ThreadUsage::default();
        for (times, node) in chunk {
            let spent = usage.next_or_begin(times, *node);
            sums.add(*node, spent);
        }
        if let Some((first, spent)) = all.precede(usage) {
            sums.add(first.node, spent);
        }
        count_open(&mut all, end_ns, &mut sums);
    }
    if let Some((first, spent)) = all.end_put_off() {
        sums.add(first.node, spent);
    }
    sums
}

fn count_open(usage: &mut ThreadUsage, end_ns: i64, sums: &mut Sums) {
    if let Some((node, range)) = usage.advance(end_ns) {
        let wait = Some(range);
        let on = Weight::default();
        sums.add(node, Spent { on, wait });
    }
}

/// Samples in the order of their times, divided into chunks. A chunk begins with a whole stack.
fn chunks_of(steps: &[(i64, u8, u64, u32, bool)]) -> (Vec<Vec<(SampleTimes, NodeNumber)>>, i64) {
    let mut chunks = vec![Vec::new()];
    let (mut at_ns, mut before) = (0, None);
    for (gap, kind, span_ns, node, is_new_chunk) in steps {
        if *is_new_chunk {
            chunks.push(Vec::new());
            before = None;
        }
        at_ns += gap;
        let times = SampleTimes {
            at_ns,
            cpu_ns: [Some(10), Some(0), None][usize::from(kind % 3)],
            span_ns: *span_ns,
            waits: kind / 3 == 1,
            is_repeated: before == Some(*node),
        };
        before = Some(*node);
        let chunk = chunks.last_mut().unwrap();
        chunk.push((times, NodeNumber(*node)));
    }
    (chunks, at_ns + 5)
}

proptest! {
    #[test]
    fn chunks_that_are_read_backward_give_the_same_sums_as_in_their_order(
        steps in prop::collection::vec(
            (1..50_i64, 0..6_u8, 1..90_u64, 0..2_u32, any::<bool>()), 1..40),
    ) {
        let (chunks, end_ns) = chunks_of(&steps);
        prop_assert_eq!(read_backward(&chunks, end_ns), read_in_order(&chunks, end_ns));
    }
}

#[test]
fn a_wait_that_began_in_an_older_chunk_is_counted_when_that_chunk_is_read() {
    let mut newer = ThreadUsage::default();
    let whole = SampleTimes {
        is_repeated: false,
        ..STOPS
    };
    assert_eq!(
        newer.next_or_begin(&at(whole, 1000), NODE),
        Spent::default()
    );
    let runs = newer.next_or_begin(&at(RUNS, 1010), NODE);
    assert_eq!(
        runs.on,
        Weight::on(10),
        "a thread that runs is counted at once"
    );
    let mut older = ThreadUsage::default();
    older.next_or_begin(&at(WAITS, 100), NODE);
    let (first, spent) = newer.precede(older).unwrap();
    assert_eq!((first.times.at_ns, spent.wait), (1000, Some((100, 1000))));
    let (first, spent) = newer.end_put_off().unwrap();
    assert_eq!((first.times.at_ns, spent), (100, Spent::default()));
    assert!(newer.end_put_off().is_none());
}

#[test]
fn without_measured_processor_time_ticks_count() {
    let mut usage = ThreadUsage::default();
    let unmeasured = |times: SampleTimes, at_ns| SampleTimes {
        cpu_ns: None,
        ..at(times, at_ns)
    };
    assert_eq!(usage.next(&unmeasured(RUNS, 50), NODE).on, Weight::on(10));
    assert_eq!(usage.next(&unmeasured(WAITS, 60), NODE), Spent::default());
    let end = usage.next(&unmeasured(STOPS, 90), NODE);
    assert_eq!((end.on, end.wait), (Weight::default(), Some((60, 90))));
}
