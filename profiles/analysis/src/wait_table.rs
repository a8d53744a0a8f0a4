//! Which processes each thread of each process waits for, and how long.
//!
//! Called by `profiler waits`. Invariant: the times of a thread's rows sum to the time in which it
//! waited.

use std::collections::HashMap;

use profiler_json::Awaited;
use serde::Serialize;

use super::meanwhile::{Meanwhile, meanwhile};
use super::places::{LabelId, NameId};
use super::timeline::{Interval, ProcessIndex, TimedThread, Timeline};

/// The part of its thread's life below which a wait is not followed to the awaited process.
const LEAST_PART: f64 = 0.01;
/// The kind of a wait for a processor.
pub const PROCESSOR: &str = "processor";

/// The waits of a profile.
#[derive(Debug, PartialEq, Serialize)]
pub struct WaitReport {
    /// The threads, those of one process after another.
    pub threads: Vec<ThreadWaits>,
}

/// The waits of one thread.
#[derive(Debug, PartialEq, Serialize)]
pub struct ThreadWaits {
    /// The name of its process.
    pub process: String,
    /// The process's number in the profile.
    pub pid: String,
    /// Its name.
    pub thread: String,
    /// Its number.
    pub tid: u64,
    /// The time of its samples, in milliseconds.
    pub life_ms: f64,
    /// How long it ran, in milliseconds.
    pub running_ms: f64,
    /// Its waits, the longest first.
    pub waits: Vec<WaitRow>,
}

/// The waits at one place for one process.
#[derive(Debug, PartialEq, Serialize)]
pub struct WaitRow {
    /// The innermost function of the program.
    pub place: String,
    /// The kind of the wait, such as `pipe`; `processor` for a thread that is ready to run; the
    /// innermost function if the kind is not known.
    pub kind: String,
    /// The awaited process; `None` if that is not known.
    #[serde(rename = "for")]
    pub whom: Option<String>,
    /// The time of the waits, in milliseconds.
    pub ms: f64,
    /// The share of the thread's life, in percent.
    pub percent: f64,
    /// What the awaited process did in this time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<Meanwhile>,
}

/// The key by which waits are summed: the function of the program, and the label or, without a
/// label, the innermost function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Known(NameId, LabelId),
    Unknown(NameId, NameId),
    Processor(NameId),
}

/// The waits of all threads.
#[must_use]
pub fn wait_report(timeline: &Timeline) -> WaitReport {
    let threads = timeline.indexed().flat_map(|(index, process)| {
        let lived = process.threads.iter();
        lived.filter_map(move |thread| of_thread(timeline, index, thread))
    });
    WaitReport {
        threads: threads.collect(),
    }
}

/// The waits of a thread. `None` if it has no samples.
fn of_thread(
    timeline: &Timeline,
    index: ProcessIndex,
    thread: &TimedThread,
) -> Option<ThreadWaits> {
    let process = timeline.process(index)?;
    let lengths = thread.pieces.iter().map(|piece| piece.weight_ns);
    let life = lengths.sum::<i64>();
    let running: i64 = thread.pieces.iter().map(|piece| piece.running_ns).sum();
    if life == 0 {
        return None;
    }
    let mut waits: HashMap<Key, (i64, Vec<Interval>)> = HashMap::new();
    for piece in thread.pieces.iter().filter(|piece| piece.waiting_ns() > 0) {
        let place = piece.place;
        let key = match place.label {
            _ if piece.is_ready() => Key::Processor(place.innermost),
            Some(label) => Key::Known(place.of_program, label),
            None => Key::Unknown(place.of_program, place.innermost),
        };
        let (ns, intervals) = waits.entry(key).or_default();
        *ns += piece.waiting_ns();
        intervals.push(piece.time);
    }
    let mut waits: Vec<_> = waits.into_iter().collect();
    waits.sort_by_key(|(key, (ns, _))| (-ns, *key));
    let row = |(key, (ns, intervals)): (Key, (i64, Vec<Interval>))| {
        row(timeline, index, (key, ns, &intervals), life)
    };
    Some(ThreadWaits {
        process: process.name.clone(),
        pid: process.pid.clone(),
        thread: thread.name.clone(),
        tid: thread.number,
        life_ms: life as f64 / 1e6,
        running_ms: running as f64 / 1e6,
        waits: waits.into_iter().map(row).collect(),
    })
}

fn row(
    timeline: &Timeline,
    waiter: ProcessIndex,
    (key, ns, intervals): (Key, i64, &[Interval]),
    life: i64,
) -> WaitRow {
    let places = &timeline.places;
    let label = match key {
        Key::Known(_, label) => places.label(label),
        Key::Unknown(..) | Key::Processor(_) => None,
    };
    let (Key::Known(place, _) | Key::Unknown(place, _) | Key::Processor(place)) = key;
    let kind = match key {
        Key::Unknown(_, innermost) => places.name(innermost),
        Key::Processor(_) => PROCESSOR,
        Key::Known(..) => "",
    };
    let part = ns as f64 / life as f64;
    let followed =
        label.filter(|label| part >= LEAST_PART && matches!(label.whom, Awaited::Processes(_)));
    WaitRow {
        place: places.name(place).to_owned(),
        kind: label.map_or(kind, |label| &label.kind).to_owned(),
        whom: label.map(|label| label.whom.to_string()),
        ms: ns as f64 / 1e6,
        percent: part * 100.0,
        meanwhile: followed.map_or_else(Vec::new, |label| {
            meanwhile(timeline, waiter, &label.whom, intervals)
        }),
    }
}
