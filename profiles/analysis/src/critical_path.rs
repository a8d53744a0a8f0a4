//! The critical path: the chain of work that had to be done, one part after the other, before a
//! thread's work ended.
//!
//! Called by `profiler waits --path`. The path is found backwards, as in critical path analysis of
//! traces (Yang and Miller, 1988), from the end of a thread's work to its beginning. Where the
//! thread waits for another process, a thread of that process is on the path until it waits itself.
//! Wake-ups are not recorded, so the path is as exact as the samples. Looks at all processes are
//! taken at almost the same time.
//!
//! Invariant: the segments follow each other without gap or overlap, so their times sum to the wall
//! time.

use std::collections::HashMap;

use profiler_json::{Awaited, WaitLabel};
use serde::Serialize;

use super::meanwhile::{MAX_SHORT_NS, awaited};
use super::places::StackPlace;
use super::timeline::{Interval, Piece, ProcessIndex, ThreadIndex, TimedProcess, Timeline};

/// The kind of a wait for the end of a process.
const PROCESS: &str = "process";

/// What the thread of a segment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// It ran.
    Runs,
    /// It was ready to run, and waited for a processor.
    Ready,
    /// It waited for something other than a process of the profile: for time, a disk, another
    /// machine.
    Waits,
    /// It waited for a process that waited for it. Both are on the path, and the samples do not say
    /// which.
    WaitsMutually,
    /// The profile has no sample of it.
    Unknown,
}

/// A part of the path in one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathSegment {
    /// The time of the segment.
    pub time: Interval,
    /// The name of the process.
    pub process: String,
    /// Its number in the profile.
    pub pid: String,
    /// The name of the thread.
    pub thread: String,
    /// What it did.
    pub state: PathState,
    /// The function: the innermost one if the thread ran, otherwise the innermost one of the
    /// program.
    pub function: String,
}

/// The time of a function on the path. Making it faster saves at most this time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathPart {
    /// The name of the process.
    pub process: String,
    /// Its number in the profile.
    pub pid: String,
    /// What it did.
    pub state: PathState,
    /// The function.
    pub function: String,
    /// Its time on the path, in milliseconds.
    pub ms: f64,
    /// The share of the path, in percent.
    pub percent: f64,
}

/// The critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalPath {
    /// The segments, from the start to the end.
    pub segments: Vec<PathSegment>,
    /// The functions, the longest first.
    pub parts: Vec<PathPart>,
    /// The length, in milliseconds.
    pub ms: f64,
}

/// Where a path ends, and how far back it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEnd {
    /// The process.
    pub process: ProcessIndex,
    /// The thread.
    pub thread: ThreadIndex,
    /// The range of time that the path covers.
    pub time: Interval,
}

/// Finds the path that ends with a thread's work.
#[must_use]
pub fn critical_path(timeline: &Timeline, end: PathEnd) -> CriticalPath {
    let mut walk = Walk {
        timeline,
        from_ns: end.time.start_ns,
        at_ns: end.time.end_ns,
        segments: Vec::new(),
    };
    let mut here = (end.process, end.thread);
    while walk.at_ns > walk.from_ns {
        here = walk.step(here);
    }
    let mut segments = walk.segments;
    segments.reverse();
    CriticalPath {
        parts: parts(&segments),
        ms: end.time.length_ns() as f64 / 1e6,
        segments,
    }
}

/// A thread of a process.
type Here = (ProcessIndex, ThreadIndex);

struct Walk<'t> {
    timeline: &'t Timeline,
    from_ns: i64,
    /// The path is known from here to its end.
    at_ns: i64,
    /// The segments so far; the last segment of the path is first.
    segments: Vec<PathSegment>,
}

impl Walk<'_> {
    /// Goes back by one segment. Returns the thread that is on the path before it.
    fn step(&mut self, first: Here) -> Here {
        let Some((piece, state)) = self.last_piece(first) else {
            return self.before_its_begin(first);
        };
        let mut start_ns = piece.time.start_ns;
        let (mut here, mut piece, mut state) = (first, piece, state);
        let mut seen = vec![first];
        while state == PathState::Waits {
            let label = self.label(piece.place);
            let Some(next) = label.and_then(|label| self.releaser(here, &label)) else {
                break;
            };
            if seen.contains(&next.0) {
                state = PathState::WaitsMutually;
                break;
            }
            seen.push(next.0);
            (here, piece, state) = next;
            // A look stands for the time since the look before it. A longer wait is known to have
            // lasted, and the other process may have done several things in it.
            if self.at_ns - start_ns > MAX_SHORT_NS {
                start_ns = start_ns.max(piece.time.start_ns);
            }
        }
        self.add(here, state, (start_ns, piece.place));
        here
    }

    /// What a thread does right before the known part of the path. A piece that is partly a wait
    /// counts as two pieces: the thread waits first.
    fn last_piece(&self, (process, thread): Here) -> Option<(Piece, PathState)> {
        let thread = self.timeline.thread(process, thread)?;
        let piece = *thread.piece_before(self.at_ns)?;
        if piece.time.end_ns < self.at_ns {
            // Nothing is known of the time between two samples.
            let gap = Interval {
                start_ns: piece.time.end_ns,
                end_ns: self.at_ns,
            };
            // In a long gap, the thread was ready to run: a thread that waits has samples.
            let is_long = gap.length_ns() > piece.time.length_ns();
            let state = match (piece.is_running(), is_long) {
                (true, false) => PathState::Runs,
                (true, true) => PathState::Ready,
                (false, _) => PathState::Waits,
            };
            return Some((Piece { time: gap, ..piece }, state));
        }
        Some(halved(piece, self.at_ns))
    }

    fn label(&self, place: StackPlace) -> Option<WaitLabel> {
        self.timeline.places.label(place.label?).cloned()
    }

    /// The child of a process whose end is nearest to the end of a wait for a process. `None` if
    /// none has ended then, or the wait is for something else.
    fn ended_child(&self, waiter: ProcessIndex, label: &WaitLabel) -> Option<ProcessIndex> {
        let process = self.timeline.process(waiter)?;
        if label.kind != PROCESS {
            return None;
        }
        let is_child = |child: &TimedProcess| {
            child.parent == process.system_pid && child.system_pid != process.system_pid
        };
        let children = self.timeline.indexed().filter(|(_, child)| is_child(child));
        let distance = |(index, child): (ProcessIndex, &TimedProcess)| {
            let life = child.life().filter(|life| life.start_ns < self.at_ns)?;
            Some((life.end_ns.abs_diff(self.at_ns), index))
        };
        let nearest = children.filter_map(distance).min()?;
        (nearest.0 <= MAX_SHORT_NS.unsigned_abs()).then_some(nearest.1)
    }

    /// The thread that could end a wait, and what it does. Of the threads of the awaited processes,
    /// this is one that can run, or else a main thread. Of several children, it is the one that has
    /// ended at the end of the wait.
    fn releaser(&self, (waiter, _): Here, label: &WaitLabel) -> Option<(Here, Piece, PathState)> {
        let threads: Vec<Here> = match &label.whom {
            Awaited::Thread(thread) => {
                let process = self.timeline.process(waiter)?;
                let wanted = u64::from(thread.number);
                let found = process
                    .threads
                    .iter()
                    .position(|one| one.number == wanted)?;
                vec![(waiter, ThreadIndex(found))]
            }
            whom => {
                let all = match self.ended_child(waiter, label) {
                    Some(child) => vec![child],
                    None => awaited(self.timeline, whom, self.at_ns),
                };
                let others = all.into_iter().filter(|one| *one != waiter);
                others.flat_map(|index| self.threads_of(index)).collect()
            }
        };
        let did = threads.into_iter().filter_map(|here| {
            let thread = self.timeline.thread(here.0, here.1)?;
            let near = *thread.piece_near(self.at_ns)?;
            let (piece, state) = halved(near, self.at_ns);
            let could_run = matches!(state, PathState::Runs | PathState::Ready);
            let order = (could_run, thread.is_main, near.place.label);
            Some((order, (here, piece, state)))
        });
        did.max_by_key(|(order, _)| *order).map(|(_, found)| found)
    }

    fn threads_of(&self, index: ProcessIndex) -> impl Iterator<Item = Here> + use<> {
        let process = self.timeline.process(index);
        let count = process.map_or(0, |process| process.threads.len());
        (0..count).map(move |thread| (index, ThreadIndex(thread)))
    }

    /// Before the first sample of a thread, the thread that started it is on the path.
    fn before_its_begin(&mut self, here: Here) -> Here {
        if let Some(parent) = self.starter(here) {
            return parent;
        }
        self.add(
            here,
            PathState::Unknown,
            (self.from_ns, StackPlace::default()),
        );
        here
    }

    /// The main thread of the process, or else of the program that the process executed before, or
    /// else of the process that started it.
    fn starter(&self, (index, thread): Here) -> Option<Here> {
        let process = self.timeline.process(index)?;
        let is_there = |(index, thread): Here| {
            let thread = self.timeline.thread(index, thread);
            thread.is_some_and(|thread| thread.piece_before(self.at_ns).is_some())
        };
        let own = process.main_thread().filter(|main| *main != thread);
        let own = own.map(|main| (index, main)).filter(|main| is_there(*main));
        let earlier = || {
            let pid = process.system_pid?;
            let programs = self
                .timeline
                .indexed()
                .filter(|(other, program)| *other != index && program.system_pid == Some(pid));
            let mains =
                programs.filter_map(|(other, program)| Some((other, program.main_thread()?)));
            let end = |here: &Here| {
                let thread = self.timeline.thread(here.0, here.1);
                thread.and_then(|thread| Some(thread.life()?.end_ns))
            };
            mains.filter(|main| is_there(*main)).max_by_key(end)
        };
        own.or_else(earlier).or_else(|| {
            let parent = self.timeline.process_at(process.parent?, self.at_ns)?;
            let main = self.timeline.process(parent)?.main_thread()?;
            Some((parent, main)).filter(|parent| is_there(*parent))
        })
    }

    /// Adds what a thread did from an instant to the known part of the path.
    fn add(&mut self, (process, thread): Here, state: PathState, (from, place): (i64, StackPlace)) {
        let start_ns = from.max(self.from_ns).min(self.at_ns - 1);
        let time = Interval {
            start_ns,
            end_ns: self.at_ns,
        };
        self.at_ns = start_ns;
        let name = match state {
            PathState::Runs | PathState::Ready => self.timeline.places.name(place.innermost),
            PathState::Waits | PathState::WaitsMutually => {
                self.timeline.places.name(place.of_program)
            }
            PathState::Unknown => "",
        };
        let thread = self.timeline.thread(process, thread);
        let of = self.timeline.process(process);
        let segment = PathSegment {
            time,
            process: of.map_or_else(String::new, |process| process.name.clone()),
            pid: of.map_or_else(String::new, |process: &TimedProcess| process.pid.clone()),
            thread: thread.map_or_else(String::new, |thread| thread.name.clone()),
            state,
            function: name.to_owned(),
        };
        match self.segments.last_mut() {
            Some(after) if is_continued(after, &segment) => after.time.start_ns = start_ns,
            _ => self.segments.push(segment),
        }
    }
}

/// The part of a piece in which an instant is, or the nearest part. A thread waits first, then it
/// runs.
fn halved(piece: Piece, at_ns: i64) -> (Piece, PathState) {
    let begin = piece.begin_of_run();
    let (start_ns, end_ns, state) = if at_ns > begin && begin < piece.time.end_ns {
        (begin, piece.time.end_ns, PathState::Runs)
    } else {
        let state = if piece.is_ready() {
            PathState::Ready
        } else {
            PathState::Waits
        };
        (piece.time.start_ns, begin, state)
    };
    let time = Interval { start_ns, end_ns };
    (Piece { time, ..piece }, state)
}

fn is_continued(after: &PathSegment, before: &PathSegment) -> bool {
    let key = |segment: &PathSegment| (segment.state, segment.pid.clone(), segment.thread.clone());
    key(after) == key(before) && after.function == before.function
}

/// The functions of a path with their times, the longest first.
fn parts(segments: &[PathSegment]) -> Vec<PathPart> {
    let total: i64 = segments
        .iter()
        .map(|segment| segment.time.length_ns())
        .sum();
    let mut sums: HashMap<_, i64> = HashMap::new();
    for segment in segments {
        let PathSegment {
            process,
            pid,
            state,
            function,
            ..
        } = segment;
        *sums.entry((pid, process, *state, function)).or_default() += segment.time.length_ns();
    }
    let mut all: Vec<_> = sums.into_iter().collect();
    all.sort_by_key(|(key, ns)| (-ns, *key));
    let part =
        |((pid, process, state, function), ns): ((&String, &String, PathState, &String), i64)| {
            PathPart {
                process: process.clone(),
                pid: pid.clone(),
                state,
                function: function.clone(),
                ms: ns as f64 / 1e6,
                percent: 100.0 * ns as f64 / total.max(1) as f64,
            }
        };
    all.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests;
