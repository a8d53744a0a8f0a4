//! Turns the samples of one thread into time on and off the processor.
//!
//! A running thread has samples, each with the processor time since the sample before. A waiting
//! thread has one sample at the start of its wait and one at the end; in between, nothing is
//! recorded. So the time of an unfinished wait is counted while it lasts ([`ThreadUsage::advance`])
//! and not again at its end. Invariants: no wait is counted twice; times of a forged pool give any
//! sums, and never a panic.

use profiler_core::internal::entry::sample::SampleEntry;

use super::stack_tree::NodeNumber;
use super::weights::Weight;

/// What a sample says about time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleTimes {
    /// When it was taken, in session time.
    pub(super) at_ns: i64,
    pub(super) cpu_ns: Option<u64>,
    /// The time of the ticks that it stands for.
    pub(super) span_ns: u64,
    /// Whether the thread waits from then on.
    pub(super) waits: bool,
    /// Whether its stack is that of the sample before.
    pub(super) is_repeated: bool,
}

impl SampleTimes {
    /// The times of a sample that was taken at this point in session time. Ticks are `tick_ns`
    /// apart.
    pub(super) fn of(sample: &SampleEntry<'_>, at_ns: i64, tick_ns: u64) -> Self {
        Self {
            at_ns,
            cpu_ns: sample.cpu_ns,
            span_ns: sample.ticks.saturating_mul(tick_ns),
            waits: sample.waits,
            is_repeated: sample.own().is_empty(),
        }
    }
}

/// A range of session time in which a thread waited.
pub(super) type WaitRange = (i64, i64);

/// The time that a sample adds to its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Time on the processor.
    pub(super) on: Weight,
    /// Time off the processor.
    pub(super) wait: Option<WaitRange>,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenWait {
    node: NodeNumber,
    /// The time up to which it is counted.
    counted_ns: i64,
}

/// The usage of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadUsage {
    open: Option<OpenWait>,
    /// The time of the latest sample.
    latest_ns: i64,
}

impl ThreadUsage {
    /// The time that the thread's next sample adds to its stack `node`.
    pub(super) fn next(&mut self, sample: &SampleTimes, node: NodeNumber) -> Spent {
        let open = self.open.take();
        let at_ns = sample.at_ns;
        let ran = sample.cpu_ns.unwrap_or(0) > 0;
        // The first sample of a thread in a chunk has its whole stack, also during a wait.
        let continues = |open: &OpenWait| !ran && (sample.is_repeated || open.node == node);
        let (spent, counted_ns) = match open.filter(continues) {
            Some(open) => {
                let wait = ordered(open.counted_ns, at_ns);
                let on = Weight::default();
                (Spent { on, wait }, at_ns.max(open.counted_ns))
            }
            None => {
                let counted_ns = open.map_or(self.latest_ns, |open| open.counted_ns);
                let earliest_ns = counted_ns.max(self.latest_ns);
                (without_wait(sample, earliest_ns), at_ns.max(counted_ns))
            }
        };
        self.open = sample.waits.then_some(OpenWait { node, counted_ns });
        self.latest_ns = self.latest_ns.max(at_ns);
        spent
    }

    /// Whether the thread waits since its latest sample.
    pub(super) const fn is_waiting(&self) -> bool {
        self.open.is_some()
    }

    /// The part of an unfinished wait, up to `now_ns`, that is not counted yet. Counts it.
    pub(super) fn advance(&mut self, now_ns: i64) -> Option<(NodeNumber, WaitRange)> {
        let open = self.open.as_mut()?;
        let range = ordered(open.counted_ns, now_ns)?;
        open.counted_ns = now_ns;
        Some((open.node, range))
    }
}

/// The time of a sample that does not continue a wait. Time before `earliest_ns` is counted
/// already.
fn without_wait(sample: &SampleTimes, earliest_ns: i64) -> Spent {
    let SampleTimes {
        at_ns,
        cpu_ns,
        span_ns,
        waits,
        ..
    } = *sample;
    let on_ns = cpu_ns.unwrap_or(if waits { 0 } else { span_ns });
    // A sample without processor time that is not the start of a wait: its thread did not run.
    let waited = cpu_ns == Some(0) && !waits;
    let span = i64::try_from(span_ns).unwrap_or(i64::MAX);
    let start = at_ns.saturating_sub(span).max(earliest_ns);
    Spent {
        on: Weight::on(on_ns),
        wait: ordered(start, at_ns).filter(|_| waited),
    }
}

fn ordered(from_ns: i64, to_ns: i64) -> Option<WaitRange> {
    (from_ns < to_ns).then_some((from_ns, to_ns))
}

#[cfg(test)]
mod tests {
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
}
