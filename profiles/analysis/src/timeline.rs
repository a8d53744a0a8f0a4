//! What each thread of each process did at each time.
//!
//! Filled by [`super::reading`], read by the analyses. A sample becomes a [`Piece`]: the time that
//! it stands for, which ends when the sample was taken. The threads of all processes are looked at
//! one right after the other, so the samples nearest to an instant show what they did at that
//! instant. Invariant: the pieces of a thread are in the order of their ends and do not overlap.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde::Serialize;

use super::places::{Places, StackPlace};

/// A range of time in nanoseconds since the start of the recording. It does not contain its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Interval {
    /// The first instant.
    pub start_ns: i64,
    /// The first instant after it.
    pub end_ns: i64,
}

impl Interval {
    /// Its length; not negative.
    #[must_use]
    pub const fn length_ns(self) -> i64 {
        let length = self.end_ns.saturating_sub(self.start_ns);
        if length < 0 { 0 } else { length }
    }

    /// The time that two ranges share. `None` if they share none.
    #[must_use]
    pub fn shared(self, other: Self) -> Option<Self> {
        let start_ns = self.start_ns.max(other.start_ns);
        let end_ns = self.end_ns.min(other.end_ns);
        (start_ns < end_ns).then_some(Self { start_ns, end_ns })
    }
}

/// The time that a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The range of time. It ends when the sample was taken.
    pub time: Interval,
    /// The time that the sample stands for. It may differ from the length of `time`, because
    /// samples stand for whole ticks. Over a thread, the sums of both are exact.
    pub weight_ns: i64,
    /// How long the thread ran in this time; at most all of it.
    pub running_ns: i64,
    /// The place of the thread.
    pub place: StackPlace,
}

impl Piece {
    /// Whether the thread was ready to run in the time in which it did not run: it waited for a
    /// processor. A sample of another wait has no processor time.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.running_ns > 0
    }

    /// How long it did not run.
    #[must_use]
    pub const fn waiting_ns(&self) -> i64 {
        self.weight_ns - self.running_ns
    }

    /// When the thread began to run; the end if it did not.
    #[must_use]
    pub fn begin_of_run(&self) -> i64 {
        self.time.end_ns - self.running_ns.clamp(0, self.time.length_ns())
    }

    /// How long the thread ran in a part of its time of this length. Over parts that cover the
    /// piece, this sums to the time that it ran.
    #[must_use]
    pub fn ran_in(&self, length_ns: i64) -> i64 {
        let share = self.running_ns as f64 / self.time.length_ns().max(1) as f64;
        ((length_ns as f64 * share) as i64).clamp(0, length_ns)
    }

    /// The distance of an instant from the instant of the sample.
    #[must_use]
    pub const fn distance(&self, at_ns: i64) -> u64 {
        self.time.end_ns.abs_diff(at_ns)
    }

    /// Whether an instant is in its time, or is its end.
    #[must_use]
    pub const fn contains(&self, at_ns: i64) -> bool {
        self.time.start_ns < at_ns && at_ns <= self.time.end_ns
    }

    /// Whether the thread ran for most of the time.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running_ns > self.waiting_ns()
    }
}

/// The distance from an instant beyond which a sample says nothing about it.
const MAX_DISTANCE: u64 = 100_000_000;

/// The index of a process in [`Timeline::processes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessIndex(pub usize);

/// The index of a thread in [`TimedProcess::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadIndex(pub usize);

/// A marker that is an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerInterval {
    /// The range of time.
    pub time: Interval,
    /// The thread that has added it.
    pub thread: ThreadIndex,
}

/// A thread.
#[derive(Debug, Default)]
pub struct TimedThread {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u64,
    /// Whether it is the process's main thread.
    pub is_main: bool,
    /// What it did.
    pub pieces: Vec<Piece>,
}

impl TimedThread {
    /// From the beginning of its first piece to the end of its last one.
    #[must_use]
    pub fn life(&self) -> Option<Interval> {
        let start_ns = self.pieces.first()?.time.start_ns;
        let end_ns = self.pieces.last()?.time.end_ns;
        Some(Interval { start_ns, end_ns })
    }

    /// The pieces that share time with an interval.
    pub fn pieces_in(&self, time: Interval) -> impl Iterator<Item = &Piece> {
        let from = self
            .pieces
            .partition_point(|piece| piece.time.end_ns <= time.start_ns);
        let rest = self.pieces.iter().skip(from);
        rest.take_while(move |piece| piece.time.start_ns < time.end_ns)
    }

    /// The piece whose sample is nearest to an instant, if that is in the thread's life.
    #[must_use]
    pub fn piece_near(&self, at_ns: i64) -> Option<&Piece> {
        let from = self
            .pieces
            .partition_point(|piece| piece.time.end_ns < at_ns);
        let before = from
            .checked_sub(1)
            .and_then(|before| self.pieces.get(before));
        let after = self.pieces.get(from);
        let after = after.filter(|piece| piece.time.start_ns < at_ns);
        let all = before.into_iter().chain(after);
        all.filter(|piece| piece.distance(at_ns) <= MAX_DISTANCE || piece.contains(at_ns))
            .min_by_key(|piece| piece.distance(at_ns))
    }

    /// The last piece that begins before an instant.
    #[must_use]
    pub fn piece_before(&self, at_ns: i64) -> Option<&Piece> {
        let from = self
            .pieces
            .partition_point(|piece| piece.time.start_ns < at_ns);
        self.pieces.get(from.checked_sub(1)?)
    }
}

/// A process.
#[derive(Debug, Default)]
pub struct TimedProcess {
    /// Its name.
    pub name: String,
    /// Its number in the profile, such as `12`, or `12.1` for the second program of process 12.
    pub pid: String,
    /// The system's number.
    pub system_pid: Option<u64>,
    /// The number of the process that started it.
    pub parent: Option<u64>,
    /// Its threads.
    pub threads: Vec<TimedThread>,
}

impl TimedProcess {
    /// From the beginning of the first piece of a thread to the end of the last one.
    #[must_use]
    pub fn life(&self) -> Option<Interval> {
        let lives = self.threads.iter().filter_map(TimedThread::life);
        lives.reduce(|one, other| Interval {
            start_ns: one.start_ns.min(other.start_ns),
            end_ns: one.end_ns.max(other.end_ns),
        })
    }

    /// Its main thread, or the one that lived for the longest time.
    #[must_use]
    pub fn main_thread(&self) -> Option<ThreadIndex> {
        let length = |thread: &TimedThread| thread.life().map_or(0, Interval::length_ns);
        let all = self.threads.iter().enumerate();
        let (index, _) = all.max_by_key(|(_, thread)| (thread.is_main, length(thread)))?;
        Some(ThreadIndex(index))
    }
}

/// All processes of a profile.
#[derive(Debug, Default)]
pub struct Timeline {
    /// The processes, in the order of the file.
    pub processes: Vec<TimedProcess>,
    /// The names of places.
    pub places: Places,
    /// The markers with the requested name, by process.
    pub markers: Vec<(ProcessIndex, MarkerInterval)>,
    by_number: OnceCell<HashMap<u64, Vec<(Interval, ProcessIndex)>>>,
}

impl Timeline {
    /// The process with this index.
    #[must_use]
    pub fn process(&self, index: ProcessIndex) -> Option<&TimedProcess> {
        self.processes.get(index.0)
    }

    /// The thread with this index.
    #[must_use]
    pub fn thread(&self, process: ProcessIndex, thread: ThreadIndex) -> Option<&TimedThread> {
        self.process(process)?.threads.get(thread.0)
    }

    /// All processes with their indices.
    pub fn indexed(&self) -> impl Iterator<Item = (ProcessIndex, &TimedProcess)> {
        let all = self.processes.iter().enumerate();
        all.map(|(index, process)| (ProcessIndex(index), process))
    }

    /// The process that had a number of the system at an instant. Several programs that one process
    /// has executed have the same number.
    #[must_use]
    pub fn process_at(&self, system_pid: u64, at_ns: i64) -> Option<ProcessIndex> {
        let programs = self.by_number().get(&system_pid)?;
        let distance = |life: Interval| {
            let before = life.start_ns.saturating_sub(at_ns);
            let after = at_ns.saturating_sub(life.end_ns);
            before.max(after).max(0)
        };
        let nearest = programs.iter().min_by_key(|(life, _)| distance(*life))?;
        Some(nearest.1)
    }

    /// The programs of each number of the system, with their lives. Made at the first call.
    fn by_number(&self) -> &HashMap<u64, Vec<(Interval, ProcessIndex)>> {
        self.by_number.get_or_init(|| {
            let mut all: HashMap<u64, Vec<(Interval, ProcessIndex)>> = HashMap::new();
            for (index, process) in self.indexed() {
                if let (Some(number), Some(life)) = (process.system_pid, process.life()) {
                    all.entry(number).or_default().push((life, index));
                }
            }
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start_ns: i64, end_ns: i64) -> Interval {
        Interval { start_ns, end_ns }
    }

    #[test]
    fn ranges_that_touch_share_nothing() {
        assert_eq!(interval(0, 5).shared(interval(5, 9)), None);
        assert_eq!(interval(0, 5).shared(interval(3, 9)), Some(interval(3, 5)));
        assert_eq!(interval(5, 0).length_ns(), 0);
    }
}
