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
//! A sample of an imported profile (weights in milliseconds) stands for the time after it.
//!
//! With [`TimeKind::Cpu`] a sample during which its thread used no processor time is idle. In formats
//! whose only weight is the length of a slice, any other sample is divided: its stack gets exactly
//! its processor time, and the rest of its time is idle. Therefore the busy slices of a function add
//! up to its processor time, to the nanosecond. If a sample has more processor time than the time
//! since the previous one, the slices after it begin later, until idle time makes up for it.
//!
//! With [`TimeKind::Wall`], the stack of a sample gets the weight of the sample, as in `profiler
//! info`, and the rest of the slice is idle. If the weight is longer than the slice, the slices after
//! it begin later. A rest of less than an interval is not idle: weights are whole intervals, so the
//! next slice begins earlier.

use super::TimeKind;
use profiler_reader::{FARTHEST_NS, Meta, NodeId, Pauses, RawThread, WeightType, bounded_ns};

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
pub(super) struct Cut<'m> {
    pub(super) time: TimeKind,
    /// Whether samples are divided into processor time and idle time.
    pub(super) divides: bool,
    pub(super) meta: &'m Meta,
    /// Nanoseconds added to all times.
    pub(super) shift_ns: i64,
    /// The periods without sampling, with times as in the file.
    pub(super) pauses: Pauses,
}

impl Cut<'_> {
    /// The slices of a thread; `nodes` has the stack of each sample.
    pub(super) fn slices(&self, thread: &RawThread, nodes: &[Option<NodeId>]) -> Vec<Slice> {
        let times = SampleTimes::of(thread, self.meta, &self.pauses);
        let is_imported = thread.samples.1 == WeightType::Milliseconds
            && (self.time == TimeKind::Wall || times.busy.is_none());
        let mut slices = if is_imported {
            self.imported(thread, &times, nodes)
        } else {
            self.recorded(thread, &times, nodes)
        };
        for slice in &mut slices {
            for at in [&mut slice.start, &mut slice.end, &mut slice.at] {
                *at = at.saturating_add(self.shift_ns);
            }
        }
        slices
    }

    /// The slices of a thread whose samples stand for times before them.
    fn recorded(
        &self,
        thread: &RawThread,
        of_samples: &SampleTimes,
        nodes: &[Option<NodeId>],
    ) -> Vec<Slice> {
        let mut pauses = self.pauses.in_order();
        let mut times = times(thread).peekable();
        let mut slices = Vec::with_capacity(nodes.len());
        let is_border = begins_at_border(thread, nodes);
        let length = if is_border {
            0
        } else {
            self.first_length(of_samples)
        };
        let mut before = times.peek().map_or(0, |first| first.saturating_sub(length));
        for (row, at) in times.enumerate().skip(usize::from(is_border)) {
            let end = at.max(before);
            let paused = pauses.between(before, end);
            if paused > 0 {
                slices.push(Slice::idle(before, before + paused));
            }
            let stack = nodes.get(row).copied().flatten();
            let measured = thread.cpu_ns(row, self.meta);
            let busy = of_samples.busy_ns(row);
            let whole = self.whole((before + paused, end), stack, (measured, busy));
            let (idle, own) = self.parts(whole, of_samples.wall_ns(row), measured);
            slices.extend(idle);
            slices.push(own);
            before = own.end;
        }
        slices
    }

    /// The idle part of a slice, and the part that its stack gets. `wall` is the time that its sample
    /// stands for, and `measured` its processor time.
    fn parts(&self, whole: Slice, wall: i64, measured: Option<u64>) -> (Option<Slice>, Slice) {
        match (self.time, measured) {
            (TimeKind::Cpu, Some(_)) if self.divides && whole.cpu > 0 => {
                whole.divided(i64::try_from(whole.cpu).unwrap_or(FARTHEST_NS))
            }
            (TimeKind::Cpu, Some(_)) => (None, whole),
            (TimeKind::Cpu, None) if whole.is_idle || !self.divides => (None, whole),
            // A later sample stands for the remainder.
            _ if whole.end - whole.start <= wall.saturating_add(self.meta.interval_ns()) => {
                let end = whole.start.saturating_add(wall);
                (None, Slice { end, ..whole })
            }
            _ => whole.divided(wall),
        }
    }

    /// The slice of a sample that is not divided.
    fn whole(
        &self,
        (start, end): (i64, i64),
        stack: Option<NodeId>,
        (measured, busy): (Option<u64>, Option<u64>),
    ) -> Slice {
        let is_idle = match self.time {
            TimeKind::Cpu => busy == Some(0),
            TimeKind::Wall => stack.is_none() && measured == Some(0),
        };
        Slice {
            start,
            end,
            at: end,
            stack,
            is_idle,
            cpu: busy.unwrap_or(0),
            is_sample: true,
        }
    }

    /// The slices of an imported thread, whose samples stand for times after them.
    fn imported(
        &self,
        thread: &RawThread,
        of_samples: &SampleTimes,
        nodes: &[Option<NodeId>],
    ) -> Vec<Slice> {
        /// Times and lengths in a file are rounded.
        const ROUNDING_NS: i64 = 1000;
        let mut slices = Vec::with_capacity(nodes.len());
        let mut before = times(thread).next().unwrap_or(0);
        for (row, at) in times(thread).enumerate() {
            if at > before.saturating_add(ROUNDING_NS) {
                slices.push(Slice::idle(before, at));
                before = at;
            }
            let stack = nodes.get(row).copied().flatten();
            let end = before.saturating_add(of_samples.wall_ns(row));
            slices.push(Slice {
                at: before,
                is_idle: false,
                ..self.whole((before, end), stack, (None, of_samples.busy_ns(row)))
            });
            before = end;
        }
        slices
    }

    /// The length of the first slice.
    fn first_length(&self, of_samples: &SampleTimes) -> i64 {
        let used = of_samples.busy_ns(0).map_or(0, u64::cast_signed);
        let wall = match self.time {
            TimeKind::Cpu => 0,
            TimeKind::Wall => of_samples.wall_ns(0),
        };
        let least = self.meta.interval_ns();
        least.max(used).max(wall).min(FARTHEST_NS)
    }
}

/// The times that the samples of a thread stand for, in nanoseconds.
struct SampleTimes {
    walls: Vec<i64>,
    /// The time that the thread ran for each sample. `None` if that is not known.
    busy: Option<Vec<u64>>,
}

impl SampleTimes {
    fn of(thread: &RawThread, meta: &Meta, pauses: &Pauses) -> Self {
        let walls = thread.wall_times_ns(meta, pauses);
        let busy = thread.busy_times_ns(meta, &walls);
        Self { walls, busy }
    }

    fn wall_ns(&self, row: usize) -> i64 {
        self.walls.get(row).copied().unwrap_or(0)
    }

    fn busy_ns(&self, row: usize) -> Option<u64> {
        Some(self.busy.as_ref()?.get(row).copied().unwrap_or(0))
    }
}

fn times(thread: &RawThread) -> impl Iterator<Item = i64> {
    thread.sample_times_ms().map(bounded_ns)
}

/// Whether the first sample only says since when the second one lasts.
fn begins_at_border(thread: &RawThread, nodes: &[Option<NodeId>]) -> bool {
    thread.samples.number(4, 0) == 0.0 && nodes.first().is_some_and(Option::is_none)
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

    /// An interval of a millisecond, and processor times in nanoseconds.
    fn meta(knows_first_cpu: bool) -> Meta {
        let start = knows_first_cpu.then_some(1);
        let meta = serde_json::json!({
            "interval": 1, "sampleUnits": {"threadCPUDelta": "ns"}, "startUnixNs": start,
        });
        serde_json::from_value(meta).unwrap()
    }

    /// Slices from times in milliseconds and processor times in nanoseconds, all in one function.
    fn slices(time: TimeKind, times: &[f64], cpu: &[f64], paused: &[(i64, i64)]) -> Vec<Slice> {
        let samples = Table::new([
            vec![0.0; times.len()],
            times.to_vec(),
            vec![],
            cpu.to_vec(),
            vec![],
        ]);
        let mut thread = RawThread::default();
        thread.samples = samples;
        let nodes = vec![Some(NodeId(0)); times.len()];
        let pauses = Pauses::new(paused.to_vec());
        let cut = Cut {
            time,
            divides: time == TimeKind::Cpu,
            meta: &meta(false),
            shift_ns: 0,
            pauses,
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
        thread.samples = Table::new([stacks, times, deltas, cpu, vec![0.0, 4.0]]);
        let cut = Cut {
            time: TimeKind::Wall,
            divides: false,
            meta: &meta(false),
            shift_ns: 0,
            pauses: Pauses::default(),
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
        thread.samples = Table::new([vec![0.0; 3], times, vec![], vec![0.0; 3], weights]);
        let cut = Cut {
            time: TimeKind::Wall,
            divides: false,
            meta: &meta(true),
            shift_ns: 0,
            pauses: Pauses::default(),
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
        thread.samples = Table::new([vec![0.0; 2], vec![50.0, 51.0], vec![], cpu, vec![]]);
        let nodes = [Some(NodeId(0)); 2];
        for (knows_first_cpu, first, cpu) in [
            (true, (30_000, false), 30_000_000),
            (false, (1000, true), 0),
        ] {
            let cut = Cut {
                time: TimeKind::Cpu,
                divides: true,
                meta: &meta(knows_first_cpu),
                shift_ns: 0,
                pauses: Pauses::default(),
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
