//! What a process did while another one waited for it.
//!
//! Called by [`super::wait_table`]. If the process itself waited for another process, the activity
//! of the other process follows, and so on. A process that is shown above is not shown again. The
//! waits of one thread stand for its process; the other threads add only the time in which they
//! ran.

use std::collections::HashMap;

use profiler_json::Awaited;
use serde::Serialize;

use super::places::{LabelId, NameId, Places};
use super::timeline::{Interval, Piece, ProcessIndex, TimedProcess, TimedThread, Timeline};

/// The maximum number of levels.
const MAX_DEPTH: usize = 6;
/// The maximum number of activities of a level.
const MAX_SHOWN: usize = 5;
/// The longest time that one look stands for. See [`during`].
pub(crate) const MAX_SHORT_NS: i64 = 60_000_000;
/// The part of the time of its level below which an activity is not divided further.
const LEAST_PART: f64 = 0.05;

/// What a process did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// It ran in this function.
    Runs(String),
    /// It was ready to run in this function, and waited for a processor.
    Ready(String),
    /// It waited in this function of the program.
    Waits {
        /// The function.
        place: String,
        /// The awaited process and the kind of the wait; `None` if that is not known.
        #[serde(rename = "for")]
        whom: Option<String>,
    },
    /// It had not begun, had ended, or has no samples.
    NotThere,
}

/// A part of the time in which a process was waited for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meanwhile {
    /// The name of the process.
    pub process: String,
    /// Its number in the profile.
    pub pid: String,
    /// What it did.
    pub activity: Activity,
    /// For how long, in milliseconds.
    pub ms: f64,
    /// Whether the process that it waited for is shown above.
    pub is_cycle: bool,
    /// The activities of the process that it waited for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Meanwhile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Runs(NameId),
    Ready(NameId),
    Waits(NameId, Option<LabelId>),
    NotThere,
}

/// The times in which a process did one thing.
#[derive(Debug, Default)]
struct Times {
    ns: i64,
    intervals: Vec<Interval>,
}

/// What the processes of a wait did in some intervals, the longest activity first.
pub(crate) fn meanwhile(
    timeline: &Timeline,
    waiter: ProcessIndex,
    whom: &Awaited,
    intervals: &[Interval],
) -> Vec<Meanwhile> {
    Search {
        timeline,
        above: vec![waiter],
    }
    .of(whom, intervals)
}

/// The awaited processes that the profile has.
pub(crate) fn awaited(timeline: &Timeline, whom: &Awaited, at_ns: i64) -> Vec<ProcessIndex> {
    let Awaited::Processes(all) = whom else {
        return Vec::new();
    };
    let find = |number: u32| timeline.process_at(u64::from(number), at_ns);
    all.iter().filter_map(|one| find(one.number)).collect()
}

struct Search<'t> {
    timeline: &'t Timeline,
    /// The processes in the chain of waits that leads here.
    above: Vec<ProcessIndex>,
}

impl Search<'_> {
    fn of(&mut self, whom: &Awaited, intervals: &[Interval]) -> Vec<Meanwhile> {
        // A number may belong to several programs, one after the other.
        let mut by_process: HashMap<ProcessIndex, Vec<Interval>> = HashMap::new();
        for interval in intervals {
            for process in awaited(self.timeline, whom, interval.end_ns) {
                by_process.entry(process).or_default().push(*interval);
            }
        }
        let mut all: Vec<_> = by_process.into_iter().collect();
        all.sort_unstable_by_key(|(process, _)| *process);
        let mut found: Vec<Meanwhile> = all
            .into_iter()
            .flat_map(|(process, intervals)| self.of_process(process, &intervals))
            .collect();
        found.sort_by(|one, other| other.ms.total_cmp(&one.ms));
        found.truncate(MAX_SHOWN);
        found
    }

    fn of_process(&mut self, index: ProcessIndex, intervals: &[Interval]) -> Vec<Meanwhile> {
        let Some(process) = self.timeline.process(index) else {
            return Vec::new();
        };
        let total: i64 = intervals.iter().map(|one| one.length_ns()).sum();
        let mut all: Vec<(Key, Times)> = activities(process, intervals).into_iter().collect();
        all.sort_by_key(|(key, times)| (-times.ns, *key));
        all.truncate(MAX_SHOWN);
        self.above.push(index);
        let found = all
            .into_iter()
            .map(|(key, times)| self.shown(process, (key, &times), total))
            .collect();
        self.above.pop();
        found
    }

    fn shown(
        &mut self,
        process: &TimedProcess,
        (key, times): (Key, &Times),
        total: i64,
    ) -> Meanwhile {
        let places = &self.timeline.places;
        let label = match key {
            Key::Waits(_, Some(label)) => places.label(label),
            _ => None,
        };
        let whom = label.map(|label| &label.whom);
        let is_long = times.ns as f64 >= total as f64 * LEAST_PART;
        let next = whom.filter(|_| is_long && self.above.len() < MAX_DEPTH);
        let is_cycle = next.is_some_and(|whom| {
            let at = times.intervals.last().map_or(0, |last| last.end_ns);
            let all = awaited(self.timeline, whom, at);
            all.iter().any(|one| self.above.contains(one))
        });
        let then = match next {
            Some(whom) if !is_cycle => self.of(whom, &times.intervals),
            _ => Vec::new(),
        };
        Meanwhile {
            process: process.name.clone(),
            pid: process.pid.clone(),
            activity: activity(places, key),
            ms: times.ns as f64 / 1e6,
            is_cycle,
            then,
        }
    }
}

fn activity(places: &Places, key: Key) -> Activity {
    match key {
        Key::Runs(function) => Activity::Runs(places.name(function).to_owned()),
        Key::Ready(function) => Activity::Ready(places.name(function).to_owned()),
        Key::Waits(place, label) => Activity::Waits {
            place: places.name(place).to_owned(),
            whom: label
                .and_then(|label| places.label(label))
                .map(|label| format!("{} ({})", label.whom, label.kind)),
        },
        Key::NotThere => Activity::NotThere,
    }
}

/// What a process did in some intervals. The thread that ran for the longest time in them stands
/// for the process; of the others, only the time on the processor counts.
fn activities(process: &TimedProcess, intervals: &[Interval]) -> HashMap<Key, Times> {
    let mut found: HashMap<Key, Times> = HashMap::new();
    let Some(main) = representative(process, intervals) else {
        let times = found.entry(Key::NotThere).or_default();
        times.ns = intervals.iter().map(|one| one.length_ns()).sum();
        return found;
    };
    for interval in intervals {
        let mut covered = 0;
        for (part, piece) in during(main, *interval) {
            covered += add(&mut found, piece, part, true);
        }
        let missing = interval.length_ns() - covered;
        if missing > 0 {
            found.entry(Key::NotThere).or_default().ns += missing;
        }
    }
    let others = process.threads.iter();
    for thread in others.filter(|thread| !std::ptr::eq(*thread, main)) {
        for interval in intervals {
            for (part, piece) in during(thread, *interval) {
                add(&mut found, piece, part, false);
            }
        }
    }
    found
}

/// What a thread did in an interval. A short interval comes from one sample of the waiting thread,
/// so only the piece nearest to its end counts. A long interval is a wait that is known to have
/// lasted, so all pieces in it count.
fn during(thread: &TimedThread, interval: Interval) -> Vec<(Interval, &Piece)> {
    if interval.length_ns() <= MAX_SHORT_NS {
        let near = thread.piece_near(interval.end_ns);
        return near.map(|piece| (interval, piece)).into_iter().collect();
    }
    let pieces = thread.pieces_in(interval);
    pieces
        .filter_map(|piece| Some((piece.time.shared(interval)?, piece)))
        .collect()
}

/// Adds a part of the time of a piece. Returns its length.
fn add(found: &mut HashMap<Key, Times>, piece: &Piece, part: Interval, with_waits: bool) -> i64 {
    let running = piece.ran_in(part.length_ns());
    let waiting = part.length_ns() - running;
    if running > 0 {
        found
            .entry(Key::Runs(piece.place.innermost))
            .or_default()
            .ns += running;
    }
    if waiting > 0 && with_waits {
        let key = if piece.is_ready() {
            Key::Ready(piece.place.innermost)
        } else {
            Key::Waits(piece.place.of_program, piece.place.label)
        };
        let times = found.entry(key).or_default();
        times.ns += waiting;
        times.intervals.push(part);
    }
    part.length_ns()
}

/// The thread that ran for the longest time in some intervals; of equal ones, the main thread.
fn representative<'p>(
    process: &'p TimedProcess,
    intervals: &[Interval],
) -> Option<&'p TimedThread> {
    let ran = |thread: &TimedThread| -> i64 {
        let pieces = |interval: &Interval| -> i64 {
            let all = thread.pieces_in(*interval);
            all.map(|piece| piece.running_ns).sum()
        };
        intervals.iter().map(pieces).sum()
    };
    let all = process.threads.iter().filter(|one| !one.pieces.is_empty());
    all.max_by_key(|thread| (ran(thread), thread.is_main))
}
