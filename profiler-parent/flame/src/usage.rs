//! Turns the samples of one thread into time on and off the processor.
//!
//! A running thread has samples, each with the processor time since the sample before. A waiting
//! thread has one sample at the start of its wait and one at the end; in between, nothing is
//! recorded. So the time of an unfinished wait is counted while it lasts ([`ThreadUsage::advance`])
//! and not again at its end.
//!
//! The newest samples of a pool are read first. What the first sample of a thread adds depends on
//! the samples before it if the thread did not run: it may end a wait. So it is put off
//! ([`ThreadUsage::begin`]) until the samples before it have been read ([`ThreadUsage::precede`]),
//! or until it is known that there are none ([`ThreadUsage::end_put_off`]). Invariants: no wait is
//! counted twice; samples that are read chunk by chunk, the newest chunk first, give the same sums
//! as in their order; times of a forged pool give any sums, and never a panic.

use profiler_core::internal::entry::sample::SampleEntry;

use crate::stack_tree::NodeNumber;
use crate::weights::Weight;

/// What a sample says about time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleTimes {
    /// When it was taken, in session time.
    pub(crate) at_ns: i64,
    pub(crate) cpu_ns: Option<u64>,
    /// The time of the ticks that it stands for.
    pub(crate) span_ns: u64,
    /// Whether the thread waits from then on.
    pub(crate) waits: bool,
    /// Whether its stack is that of the sample before.
    pub(crate) is_repeated: bool,
}

impl SampleTimes {
    /// Whether the thread used the processor since the sample before.
    fn ran(&self) -> bool {
        self.cpu_ns.unwrap_or(0) > 0
    }

    /// The times of a sample that was taken at this point in session time. Ticks are `tick_ns`
    /// apart.
    pub(crate) fn of(sample: &SampleEntry<'_>, at_ns: i64, tick_ns: u64) -> Self {
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
pub(crate) type WaitRange = (i64, i64);

/// The time that a sample adds to its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Time on the processor.
    pub(crate) on: Weight,
    /// Time off the processor.
    pub(crate) wait: Option<WaitRange>,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
struct OpenWait {
    node: NodeNumber,
    /// The time up to which it is counted.
    counted_ns: i64,
}

/// A sample whose time depends on samples that are older, and that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutOffSample {
    pub(crate) times: SampleTimes,
    pub(crate) node: NodeNumber,
}

/// The usage of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadUsage {
    open: Option<OpenWait>,
    /// The time of the latest sample.
    latest_ns: i64,
    /// Whether there was a sample.
    has_begun: bool,
    /// The first sample, if it was put off.
    first: Option<PutOffSample>,
}

impl ThreadUsage {
    /// The time that the thread's next sample adds to its stack `node`, if older samples may be
    /// read later.
    pub(crate) fn next_or_begin(&mut self, sample: &SampleTimes, node: NodeNumber) -> Spent {
        if self.has_begun {
            self.next(sample, node)
        } else {
            self.begin(sample, node)
        }
    }

    /// The time that the thread's first sample adds, if older samples may be read later.
    fn begin(&mut self, sample: &SampleTimes, node: NodeNumber) -> Spent {
        let spent = self.next(sample, node);
        if sample.ran() {
            return spent;
        }
        let times = *sample;
        self.first = Some(PutOffSample { times, node });
        Spent::default()
    }

    /// Joins the usage of the time before this. Returns the sample that was put off until then, and
    /// the time that it adds.
    pub(crate) fn precede(&mut self, mut older: Self) -> Option<(PutOffSample, Spent)> {
        if !older.has_begun {
            return None;
        }
        if !self.has_begun {
            *self = older;
            return None;
        }
        let first = std::mem::replace(&mut self.first, older.first)?;
        Some((first, older.next(&first.times, first.node)))
    }

    /// Returns the sample that was put off, and the time that it adds if no sample is older.
    pub(crate) fn end_put_off(&mut self) -> Option<(PutOffSample, Spent)> {
        let first = self.first.take()?;
        Some((first, Self::default().next(&first.times, first.node)))
    }

    /// The time that the thread's next sample adds to its stack `node`.
    pub(crate) fn next(&mut self, sample: &SampleTimes, node: NodeNumber) -> Spent {
        self.has_begun = true;
        let open = self.open.take();
        let at_ns = sample.at_ns;
        // The first sample of a thread in a chunk has its whole stack, also during a wait.
        let continues = |open: &OpenWait| {
            let is_same = sample.is_repeated || open.node == node;
            !sample.ran() && is_same
        };
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

    /// Whether the thread waits since its latest sample, or its first sample was put off.
    pub(crate) const fn is_needed(&self) -> bool {
        self.open.is_some() || self.first.is_some()
    }

    /// The part of an unfinished wait, up to `now_ns`, that is not counted yet. Counts it.
    pub(crate) fn advance(&mut self, now_ns: i64) -> Option<(NodeNumber, WaitRange)> {
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
mod tests;
