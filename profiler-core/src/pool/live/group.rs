//! A group's cell: the totals of a group over all threads of the process.
//!
//! Written by every thread that works for the group, once per iteration, without a lock; read
//! through the file by `reader::groups` at any time, also when the process is stopped or dead.
//!
//! ```text
//! word  0       definition, 0 = free: published last, read first
//!       1       commits begun          2  commits ended
//!       3       ticks (outermost entries)
//!       4       runs that were timed   5  their wall time, ns
//!       6       wall time of runs whose processor time is known, ns
//!       7       that processor time, ns
//!       8       time in blocking calls, ns
//!       9       spans discarded because the clock went backwards
//!      10       spans discarded because the thread changed processors
//!      11       times the group was left for a nested loop
//!      12…21    runs of more than 2^i ms
//!      22…31    peaks: the longest run that ended in a period of 0.52 s, a ring over about 5 s
//!               duration (24 bits) | end since the session's start (40 bits), in units of 16 µs
//!      32…126   histogram
//!      127      the longest run, ns
//! ```
//!
//! All words except the peaks only grow (the longest run is updated before the run is counted), so
//! a reader that reads twice never sees a number fall. A commit raises `begun` before and `ended`
//! after all other words, each step with release. If `ended`, read first, equals `begun`, read
//! last, no commit was under way in between, and the numbers read in between are consistent:
//!
//! ```text
//! begun 4 ── ticks, wall, … ── ended 4 │ begun 5 ── ticks, … ── ended 5
//!                                      └─ a reader here: ended 4 … begun 4: settled
//! ```
//!
//! A process killed in the middle of a commit leaves `begun` ahead of `ended` permanently; the
//! reader reports it.

#![allow(unsafe_code)]

use super::super::SharedWords;
use super::super::layout::GROUP_BYTES;
use crate::durations::{BUCKETS, PLACES, buckets_of, place_of};
use crate::ids::DefinitionId;
use crate::sync::{AtomicU64, Ordering};

/// Length of the ring of peaks.
pub(crate) const PEAKS: usize = 10;
/// Nanoseconds in a unit of a peak.
pub(crate) const PEAK_UNIT_NS: u64 = 16_000;
/// Bits of a peak that hold its end.
pub(crate) const PEAK_END_BITS: u32 = 40;
/// Bits of the end below the period number: a period is 2^15 units.
const PERIOD_BITS: u32 = 15;
const MAX_UNITS: u64 = (1 << (64 - PEAK_END_BITS)) - 1;

/// Offsets of the words, for the reader.
pub(crate) mod word {
    pub(crate) const DEFINITION: usize = 0;
    pub(crate) const BEGUN: usize = 1;
    pub(crate) const ENDED: usize = 2;
    pub(crate) const TICKS: usize = 3;
    pub(crate) const RUNS: usize = 4;
    pub(crate) const WALL: usize = 5;
    pub(crate) const MEASURED: usize = 6;
    pub(crate) const CPU: usize = 7;
    pub(crate) const BLOCKING: usize = 8;
    pub(crate) const DISCARDED: usize = 9;
    pub(crate) const MOVED: usize = 10;
    pub(crate) const NESTED: usize = 11;
    pub(crate) const DURATIONS: usize = 12;
    pub(crate) const PEAKS: usize = 22;
    pub(crate) const HISTOGRAM: usize = 32;
    pub(crate) const LONGEST: usize = 127;
}

/// The result of one iteration of one thread for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) ticks: u64,
    /// Its wall time; `None` if it was not measured, or if all of it had to be discarded.
    pub(crate) wall_ns: Option<u64>,
    /// Its processor time; `None` if unknown.
    pub(crate) cpu_ns: Option<u64>,
    /// Whether buckets, histogram and peaks count it.
    pub(crate) counts_as_run: bool,
    pub(crate) blocking_ns: u64,
    pub(crate) discarded: u64,
    pub(crate) moved: u64,
    pub(crate) nested: u64,
    /// When it ended, since the session's start.
    pub(crate) ended_ns: u64,
}

impl Run {
    /// An empty run.
    pub(crate) const NONE: Self = Self {
        ticks: 0,
        wall_ns: None,
        cpu_ns: None,
        counts_as_run: false,
        blocking_ns: 0,
        discarded: 0,
        moved: 0,
        nested: 0,
        ended_ns: 0,
    };
}

/// The words of a group's cell.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GroupCell {
    definition: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
    ticks: AtomicU64,
    runs: AtomicU64,
    wall: AtomicU64,
    measured: AtomicU64,
    cpu: AtomicU64,
    blocking: AtomicU64,
    discarded: AtomicU64,
    moved: AtomicU64,
    nested: AtomicU64,
    durations: [AtomicU64; BUCKETS],
    peaks: [AtomicU64; PEAKS],
    histogram: [AtomicU64; PLACES],
    longest: AtomicU64,
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for GroupCell {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<GroupCell>() as u64 == GROUP_BYTES);

impl GroupCell {
    /// Adds a run. Lock-free; words that do not change are not touched.
    pub(crate) fn commit(&self, run: &Run) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        add(&self.ticks, run.ticks);
        add(&self.blocking, run.blocking_ns);
        add(&self.discarded, run.discarded);
        add(&self.moved, run.moved);
        add(&self.nested, run.nested);
        if let Some(wall) = run.wall_ns {
            self.add_time(wall, run);
        }
        self.ended.fetch_add(1, Ordering::Release);
    }

    fn add_time(&self, wall: u64, run: &Run) {
        add(&self.wall, wall);
        if let Some(cpu) = run.cpu_ns {
            add(&self.measured, wall);
            add(&self.cpu, cpu);
        }
        if run.counts_as_run {
            if wall > self.longest.load(Ordering::Relaxed) {
                self.longest.fetch_max(wall, Ordering::Release);
            }
            add(&self.runs, 1);
            self.durations
                .iter()
                .take(buckets_of(wall))
                .for_each(|bucket| add(bucket, 1));
            if let Some(place) = self.histogram.get(place_of(wall)) {
                add(place, 1);
            }
            self.note_peak(wall, run.ended_ns);
        }
    }

    /// Keeps the run if it is the longest of its period. It replaces a peak of an older period; a
    /// late commit, whose slot already holds a later period, is not kept.
    fn note_peak(&self, wall_ns: u64, ended_ns: u64) {
        let end = ended_ns / PEAK_UNIT_NS;
        let length = (wall_ns / PEAK_UNIT_NS).min(MAX_UNITS);
        let peak = (length << PEAK_END_BITS) | end & ((1 << PEAK_END_BITS) - 1);
        let period = period_of(peak);
        let Some(place) = usize::try_from(period)
            .ok()
            .and_then(|period| self.peaks.get(period % PEAKS))
        else {
            return;
        };
        let mut seen = place.load(Ordering::Relaxed);
        while length > 0 && (period_of(seen) < period || period_of(seen) == period && seen < peak) {
            match place.compare_exchange_weak(seen, peak, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Resets the cell to zero when a new session begins.
    pub(crate) fn reset(&self) {
        self.words()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// All words except the definition, in the order of the pool.
    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        let first = [
            &self.begun,
            &self.ended,
            &self.ticks,
            &self.runs,
            &self.wall,
            &self.measured,
            &self.cpu,
            &self.blocking,
            &self.discarded,
            &self.moved,
            &self.nested,
        ];
        let lists = self.durations.iter().chain(&self.peaks);
        let lists = lists.chain(&self.histogram);
        first.into_iter().chain(lists).chain([&self.longest])
    }

    /// Publishes the cell under its definition.
    pub(crate) fn publish(&self, definition: DefinitionId) {
        self.definition
            .store(u64::from(definition.get()), Ordering::Release);
    }
}

/// Release, so that a reader that sees the sum also sees that the commit had begun.
fn add(word: &AtomicU64, more: u64) {
    if more != 0 {
        word.fetch_add(more, Ordering::Release);
    }
}

const fn period_of(peak: u64) -> u64 {
    (peak & ((1 << PEAK_END_BITS) - 1)) >> PERIOD_BITS
}

/// A cell in a model or a unit test, without a pool.
#[cfg(test)]
pub(crate) mod model {
    use super::*;

    impl GroupCell {
        pub(crate) fn zeroed() -> Self {
            let word = || AtomicU64::new(0);
            Self {
                definition: word(),
                begun: word(),
                ended: word(),
                ticks: word(),
                runs: word(),
                wall: word(),
                measured: word(),
                cpu: word(),
                blocking: word(),
                discarded: word(),
                moved: word(),
                nested: word(),
                durations: std::array::from_fn(|_| word()),
                peaks: std::array::from_fn(|_| word()),
                histogram: std::array::from_fn(|_| word()),
                longest: word(),
            }
        }

        #[cfg(loom)]
        /// Reads, in this order: commits ended, ticks, wall time, commits begun.
        pub(crate) fn read_totals(&self) -> [u64; 4] {
            [&self.ended, &self.ticks, &self.wall, &self.begun]
                .map(|word| word.load(Ordering::Acquire))
        }

        /// The words in the layout of a file.
        #[cfg(not(loom))]
        pub(crate) fn bytes(&self) -> Vec<u8> {
            let all = std::iter::once(&self.definition).chain(self.words());
            all.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
                .collect()
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    fn run() -> Run {
        Run {
            ticks: 1,
            wall_ns: Some(7),
            ..Run::default()
        }
    }

    #[test]
    fn loom_settled_totals_are_consistent_while_two_threads_commit() {
        loom::model(|| {
            let cell = Arc::new(GroupCell::zeroed());
            let committers = [(); 2].map(|()| {
                let cell = Arc::clone(&cell);
                thread::spawn(move || cell.commit(&run()))
            });
            let [ended, ticks, wall, begun] = cell.read_totals();
            assert!(ended <= begun);
            if ended == begun {
                assert_eq!(
                    (ticks, wall),
                    (ended, 7 * ended),
                    "half a commit looks settled"
                );
            }
            committers
                .into_iter()
                .for_each(|committer| committer.join().unwrap());
            assert_eq!(cell.read_totals(), [2, 2, 14, 2], "a commit is lost");
        });
    }

    #[test]
    fn loom_no_number_falls_while_threads_commit() {
        loom::model(|| {
            let cell = Arc::new(GroupCell::zeroed());
            let committer = {
                let cell = Arc::clone(&cell);
                thread::spawn(move || (0..2).for_each(|_| cell.commit(&run())))
            };
            let before = cell.read_totals();
            let after = cell.read_totals();
            assert!(
                before
                    .iter()
                    .zip(after)
                    .all(|(before, after)| *before <= after)
            );
            committer.join().unwrap();
        });
    }

    #[test]
    fn loom_the_longer_of_two_runs_in_one_period_is_the_peak() {
        loom::model(|| {
            let cell = Arc::new(GroupCell::zeroed());
            let shorter = {
                let cell = Arc::clone(&cell);
                thread::spawn(move || cell.note_peak(20_000_000, 30_000_000))
            };
            cell.note_peak(25_000_000, 31_000_000);
            shorter.join().unwrap();
            let peak = cell.peaks[0].load(Ordering::Relaxed);
            assert_eq!(peak >> PEAK_END_BITS, 25_000_000 / PEAK_UNIT_NS);
        });
    }
}
