//! Converts samples to slices of time: the time that each sample represents, and whether its thread
//! ran.
//!
//! Used by [`super::recording`]. A sample and its processor time represent the time since the
//! previous sample, so a period in which no sample was possible remains one slice of its whole
//! length, if it is not divided. The first sample of a thread represents one interval, or its
//! processor time or its weight if that is longer and its start is known. If it has the weight 0
//! and no stack, as in a batch that continues a series, it represents no time, and the second sample
//! represents the time since then. The slices of a thread are consecutive.
//!
//! The samples of an imported profile (weights in milliseconds) last from their time onwards.
//!
//! With [`TimeKind::Cpu`] a sample during which its thread used no processor time is idle. In formats
//! whose only weight is the length of a slice, any other sample is divided: its stack gets exactly
//! its processor time, and the rest of its time is idle. Therefore the busy slices of a function add
//! up to its processor time, to the nanosecond. If a sample has more processor time than the time
//! since the previous one, the slices after it begin later, until idle time makes up for it.
//!
//! With [`TimeKind::Wall`], a sample that has a weight is divided in the same way: its stack gets its
//! weight, as in `profiler info`. The first sample of a wait stands for the waits before it that no
//! sample shows, so this time may be longer than that since the previous sample.

use super::TimeKind;
use super::pauses::Pauses;
use profiler_reader::{NodeId, RawThread, WeightType};

/// A slice of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Nanoseconds since the session's start.
    pub(super) start: i64,
    /// The start of the next slice.
    pub(super) end: i64,
    /// When the sample was taken.
    pub(super) at: i64,
    /// `None` if unknown.
    pub(super) stack: Option<NodeId>,
    /// Not running on a processor, or not sampled at all.
    pub(super) is_idle: bool,
    /// Processor time in nanoseconds.
    pub(super) cpu: u64,
    /// `false` for a pause, and for the idle part of a divided sample.
    pub(super) is_sample: bool,
}

impl Slice {
    /// The idle part and the other part of a slice. The other part has this length, and ends with
    /// the slice, or later if the slice is too short.
    fn divided(&self, length: i64) -> (Option<Self>, Self) {
        let start = self.end.saturating_sub(length).max(self.start);
        let idle = (start > self.start).then(|| Self::idle(self.start, start));
        let other = Self {
            start,
            end: start.saturating_add(length),
            ..*self
        };
        (idle, other)
    }

    pub(super) const fn length(&self) -> u64 {
        self.end.saturating_sub(self.start).unsigned_abs()
    }
}

/// Parameters for cutting slices.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) time: TimeKind,
    /// Whether samples are divided into processor time and idle time.
    pub(super) divides: bool,
    pub(super) interval_ns: i64,
    pub(super) cpu_unit_ns: Option<f64>,
    /// Whether the start of the processor time of a thread's first sample is known.
    pub(super) knows_first_cpu: bool,
    /// Nanoseconds added to all times.
    pub(super) shift_ns: i64,
    /// The periods without sampling.
    pub(super) paused: Pauses,
}

/// Limit on times in a file, in nanoseconds from the session's start (36 years), so that
/// differences and sums of times do not overflow.
const FARTHEST: i64 = 1 << 60;

/// Converts milliseconds of a file to nanoseconds; 0 for NaN.
pub(super) fn bounded_ns(ms: f64) -> i64 {
    ((ms * 1e6).round() as i64).clamp(-FARTHEST, FARTHEST)
}

impl Cut {
    /// The slices of a thread; `nodes` has the stack of each sample.
    pub(super) fn slices(&self, thread: &RawThread, nodes: &[Option<NodeId>]) -> Vec<Slice> {
        let mut times = self.times(thread).peekable();
        if thread.samples.1 == WeightType::Milliseconds {
            return timed(thread, &times.collect::<Vec<_>>(), nodes);
        }
        let mut slices = Vec::with_capacity(nodes.len());
        let is_border = begins_at_border(thread, nodes);
        let length = if is_border {
            0
        } else {
            self.first_length(thread)
        };
        let mut before = times.peek().map_or(0, |first| first.saturating_sub(length));
        for (row, at) in times.enumerate().skip(usize::from(is_border)) {
            let end = at.max(before);
            let paused = self.paused.between(before, end);
            if paused > 0 {
                slices.push(Slice::idle(before, before + paused));
            }
            let stack = nodes.get(row).copied().flatten();
            let whole = self.whole(thread, row, (before + paused, end), stack);
            let length = self.own_length(thread, row, &whole);
            let (idle, own) = length.map_or((None, whole), |length| whole.divided(length));
            slices.extend(idle);
            slices.push(own);
            before = own.end;
        }
        slices
    }

    /// The part of a slice that its stack gets. `None` if that is the whole slice.
    fn own_length(&self, thread: &RawThread, row: usize, whole: &Slice) -> Option<i64> {
        match self.time {
            TimeKind::Cpu if self.divides => i64::try_from(whole.cpu).ok().filter(|cpu| *cpu > 0),
            TimeKind::Cpu => None,
            TimeKind::Wall => self.weight_ns(thread, row),
        }
    }

    /// The time that a sample stands for, if its weight is known and not 0.
    fn weight_ns(&self, thread: &RawThread, row: usize) -> Option<i64> {
        let weight = thread.samples.number(4, row);
        let unit_ns = match thread.samples.1 {
            WeightType::Samples => self.interval_ns as f64,
            WeightType::Milliseconds | WeightType::MillisecondsBefore => 1e6,
        };
        let ns = (weight * unit_ns).round() as i64;
        (weight > 0.0).then_some(ns.min(FARTHEST))
    }

    /// The slice of a sample that is not divided.
    fn whole(
        &self,
        thread: &RawThread,
        row: usize,
        (start, end): (i64, i64),
        stack: Option<NodeId>,
    ) -> Slice {
        let measured = self.cpu(thread, row);
        let is_known = row > 0 || self.knows_first_cpu;
        let cpu = measured.filter(|_| is_known).unwrap_or(0);
        let is_idle = match self.time {
            // Without a measurement the thread may have run.
            TimeKind::Cpu => measured.is_some() && cpu == 0,
            TimeKind::Wall => stack.is_none() && measured == Some(0),
        };
        Slice {
            start,
            end,
            at: end,
            stack,
            is_idle,
            cpu,
            is_sample: true,
        }
    }

    /// The time that the first sample represents.
    fn first_length(&self, thread: &RawThread) -> i64 {
        let cpu = self.cpu(thread, 0).filter(|_| self.knows_first_cpu);
        let used = cpu.map_or(0, u64::cast_signed);
        let weight = match self.time {
            TimeKind::Cpu => None,
            TimeKind::Wall => self.weight_ns(thread, 0),
        };
        let least = self.interval_ns.max(used).min(FARTHEST);
        weight.unwrap_or(0).max(least)
    }

    fn times(&self, thread: &RawThread) -> impl Iterator<Item = i64> {
        let at = |ms| bounded_ns(ms).saturating_add(self.shift_ns);
        thread.sample_times_ms().map(at)
    }

    fn cpu(&self, thread: &RawThread, row: usize) -> Option<u64> {
        let used = thread.samples.number(3, row) * self.cpu_unit_ns?;
        (used >= 0.0).then_some((used as u64).min(FARTHEST.unsigned_abs()))
    }
}

/// Whether the first sample only says since when the second one lasts.
fn begins_at_border(thread: &RawThread, nodes: &[Option<NodeId>]) -> bool {
    thread.samples.number(4, 0) == 0.0 && nodes.first().is_some_and(Option::is_none)
}

/// Slices whose lengths are their weights.
fn timed(thread: &RawThread, times: &[i64], nodes: &[Option<NodeId>]) -> Vec<Slice> {
    let mut start = times.first().copied().unwrap_or(0);
    let slice = |row: usize| {
        let ms = thread.samples.number(4, row);
        let ns = if ms >= 0.0 { bounded_ns(ms) } else { 0 };
        // A slice ends at the next sample, regardless of its weight; times never decrease.
        let end = times
            .get(row + 1)
            .map_or(start.saturating_add(ns), |next| (*next).max(start));
        let stack = nodes.get(row).copied().flatten();
        let slice = Slice {
            start,
            end,
            at: start,
            stack,
            is_idle: false,
            cpu: 0,
            is_sample: true,
        };
        start = end;
        slice
    };
    (0..times.len()).map(slice).collect()
}

impl Slice {
    const fn idle(start: i64, end: i64) -> Self {
        Self {
            start,
            end,
            at: end,
            stack: None,
            is_idle: true,
            cpu: 0,
            is_sample: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_reader::Table;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// Slices from times in milliseconds and processor times in nanoseconds, all in one function.
    fn slices(time: TimeKind, times: &[f64], cpu: &[f64], paused: &[(i64, i64)]) -> Vec<Slice> {
        let samples = Table::of([
            vec![0.0; times.len()],
            times.to_vec(),
            vec![],
            cpu.to_vec(),
            vec![],
        ]);
        let mut thread = RawThread::default();
        thread.samples = samples;
        let nodes = vec![Some(NodeId(0)); times.len()];
        let paused = Pauses::of(paused.to_vec());
        let cut = Cut {
            time,
            divides: time == TimeKind::Cpu,
            interval_ns: MS,
            cpu_unit_ns: Some(1.0),
            knows_first_cpu: false,
            shift_ns: 0,
            paused,
        };
        cut.slices(&thread, &nodes)
    }

    fn lengths(slices: &[Slice]) -> Vec<(u64, bool)> {
        slices
            .iter()
            .map(|slice| (slice.length() / 1000, slice.is_idle))
            .collect()
    }

    #[test]
    fn x5_a_long_time_between_samples_stays_one_slice() {
        let slices = slices(TimeKind::Wall, &[1.0, 2.0, 52.0, 53.0], &[], &[]);
        assert_eq!(
            lengths(&slices),
            [(1000, false), (1000, false), (50_000, false), (1000, false)]
        );
        assert_eq!(
            slices[2].start,
            2 * MS,
            "a slice begins where the previous one ended"
        );
    }

    #[test]
    fn x6_a_pause_belongs_to_no_function() {
        let slices = slices(
            TimeKind::Wall,
            &[1.0, 101.0],
            &[],
            &[(10 * MS, 90 * MS), (95 * MS, 300 * MS)],
        );
        assert_eq!(
            lengths(&slices),
            [(1000, false), (86_000, true), (14_000, false)]
        );
        assert!(!slices[1].is_sample && slices[1].stack.is_none());
    }

    proptest! {
        /// The time between samples may be shorter than their processor time.
        #[test]
        fn x3_the_busy_slices_are_as_long_as_the_processor_time(
            samples in prop::collection::vec((0_u32..5_000_000, 0_u32..5_000_000), 1..200),
        ) {
            let mut at = 0_u64;
            let after = |ns: u32| {
                at += u64::from(ns);
                at as f64 / 1e6
            };
            let times: Vec<f64> = samples.iter().map(|(ns, _)| *ns).map(after).collect();
            let cpu: Vec<f64> = samples.iter().map(|(_, cpu)| f64::from(*cpu)).collect();
            let slices = slices(TimeKind::Cpu, &times, &cpu, &[]);
            let busy = slices.iter().filter(|slice| !slice.is_idle);
            prop_assert_eq!(
                busy.map(|slice| (slice.length(), slice.stack)).collect::<Vec<_>>(),
                cpu.iter()
                    .skip(1) // the start of the first one is unknown
                    .filter(|cpu| **cpu > 0.0)
                    .map(|cpu| (*cpu as u64, Some(NodeId(0))))
                    .collect::<Vec<_>>()
            );
            prop_assert!(slices.is_sorted_by(|one, next| one.end == next.start));
        }
    }

    #[test]
    fn x3_idle_time_makes_up_for_processor_time_that_exceeds_a_sample() {
        let times = [1.0, 2.0, 3.0, 9.0, 10.0];
        let slices = slices(TimeKind::Cpu, &times, &[0.0, 3e6, 1e6, 2e6, 1e6], &[]);
        let places = slices
            .iter()
            .map(|slice| (slice.start / MS, slice.end / MS, slice.is_idle));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [
                (0, 1, true),
                (1, 4, false),
                (4, 5, false),
                (5, 7, true),
                (7, 9, false),
                (9, 10, false)
            ]
        );
    }

    #[test]
    fn a_first_sample_of_weight_0_only_begins_the_time() {
        let mut thread = RawThread::default();
        let columns = [
            vec![f64::NAN, 0.0],
            vec![5.0, 9.0],
            vec![],
            vec![0.0, 300.0],
        ];
        let [stacks, times, deltas, cpu] = columns;
        thread.samples = Table::of([stacks, times, deltas, cpu, vec![0.0, 4.0]]);
        let cut = Cut {
            time: TimeKind::Wall,
            divides: false,
            interval_ns: MS,
            cpu_unit_ns: Some(1.0),
            knows_first_cpu: false,
            shift_ns: 0,
            paused: Pauses::default(),
        };
        let nodes = [None, Some(NodeId(0))];
        let slices = cut.slices(&thread, &nodes);
        assert_eq!(lengths(&slices), [(4000, false)]);
        assert_eq!(slices[0].cpu, 300, "its start is known");
    }

    #[test]
    fn a_stack_gets_the_weight_of_its_sample_and_the_rest_is_idle() {
        let mut thread = RawThread::default();
        let times = vec![1.0, 10.0, 20.0];
        let weights = vec![1.0, 5.0, 14.0];
        thread.samples = Table::of([vec![0.0; 3], times, vec![], vec![0.0; 3], weights]);
        let cut = Cut {
            time: TimeKind::Wall,
            divides: false,
            interval_ns: MS,
            cpu_unit_ns: Some(1.0),
            knows_first_cpu: true,
            shift_ns: 0,
            paused: Pauses::default(),
        };
        let slices = cut.slices(&thread, &[Some(NodeId(0)); 3]);
        assert_eq!(
            lengths(&slices),
            [(1000, false), (4000, true), (5000, false), (14_000, false)]
        );
    }

    #[test]
    fn the_processor_time_of_a_first_sample_counts_if_its_start_is_known() {
        let mut thread = RawThread::default();
        let cpu = vec![30e6, 1e6];
        thread.samples = Table::of([vec![0.0; 2], vec![50.0, 51.0], vec![], cpu, vec![]]);
        let nodes = [Some(NodeId(0)); 2];
        for (knows_first_cpu, first, cpu) in [
            (true, (30_000, false), 30_000_000),
            (false, (1000, true), 0),
        ] {
            let cut = Cut {
                time: TimeKind::Cpu,
                divides: true,
                interval_ns: MS,
                cpu_unit_ns: Some(1.0),
                knows_first_cpu,
                shift_ns: 0,
                paused: Pauses::default(),
            };
            let slices = cut.slices(&thread, &nodes);
            assert_eq!(lengths(&slices), [first, (1000, false)]);
            assert_eq!(slices[0].cpu, cpu);
        }
    }

    #[test]
    fn a_sample_with_an_earlier_time_or_none_gets_the_previous_time() {
        let slices = slices(TimeKind::Wall, &[5.0, 3.0, f64::NAN, 6.0], &[], &[]);
        assert_eq!(
            lengths(&slices)
                .iter()
                .map(|(us, _)| *us)
                .collect::<Vec<_>>(),
            [1000, 0, 0, 1000]
        );
    }
}
