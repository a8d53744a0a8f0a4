//! Reads a profile into a [`Timeline`].
//!
//! The users of [`super::read_timeline`] call it once for each file. Memory holds one thread of the
//! file at a time, and the pieces of all threads.
//!
//! Samples stand for whole ticks, and the rest is carried to the next sample. A sample may thus
//! stand for more than the time since the one before it; the surplus fills a later gap.

use std::path::Path;

use profiler_files::WorkListener;
use profiler_reader::{
    FuncId, MarkerPhase, NodeId, Pauses, ProfileReader, ReadError, Survey, Tables, Thread,
    ThreadSink, Wanted, WeightType, bounded_ns, system_pid,
};

use super::places::{Places, StackPlace, functions_of_program};
use super::timeline::{
    Interval, MarkerInterval, Piece, ProcessIndex, ThreadIndex, TimedProcess, TimedThread, Timeline,
};

/// Reads a profile, compressed or not. `marker` is the name of the markers that are kept; `names`
/// tells whether addresses without names get names from the files of this machine.
///
/// # Errors
/// [`ReadError`], if the file cannot be read or is not a profile.
pub fn read_timeline(
    path: &Path,
    marker: Option<&str>,
    names: bool,
    listener: WorkListener,
) -> Result<Timeline, ReadError> {
    let wanted = Wanted {
        names,
        logs: true,
        ..Wanted::default()
    };
    let reader = ProfileReader::open_with(path, wanted, listener)?;
    let mut collected = Collected {
        timeline: Timeline::default(),
        marker: marker.map(str::to_owned),
        shared: KnownPlaces::default(),
    };
    reader.threads(&mut collected)?;
    let mut timeline = collected.timeline;
    add_parents(&mut timeline, &reader.into_survey());
    Ok(timeline)
}

/// The data collected from the threads.
struct Collected {
    timeline: Timeline,
    marker: Option<String>,
    /// The places of the stacks in tables that threads share.
    shared: KnownPlaces,
}

/// The places and the functions of the program that were found for the stacks of tables, by the
/// numbers of the stacks.
#[derive(Default)]
struct KnownPlaces {
    places: Vec<Option<StackPlace>>,
    /// See [`functions_of_program`].
    programs: Vec<Option<FuncId>>,
}

impl KnownPlaces {
    /// Adds what belongs to these tables. They are the same in each call, or have new rows.
    fn extend(&mut self, tables: &Tables) {
        if self.places.len() != tables.node_count() {
            self.places.resize(tables.node_count(), None);
            self.programs = functions_of_program(tables);
        }
    }
}

impl ThreadSink for Collected {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ReadError> {
        let mut own = KnownPlaces::default();
        let known = if thread.has_own_tables {
            &mut own
        } else {
            &mut self.shared
        };
        known.extend(thread.tables);
        let pieces = pieces(thread, survey, &mut self.timeline.places, known);
        let process = self.process(thread);
        let index = ProcessIndex(process);
        let Some(process) = self.timeline.processes.get_mut(process) else {
            return Ok(());
        };
        let at = ThreadIndex(process.threads.len());
        process.threads.push(TimedThread {
            name: thread.name.to_owned(),
            number: thread.raw.tid,
            is_main: thread.raw.is_main(),
            pieces,
        });
        if let Some(wanted) = &self.marker {
            let found = markers(thread, wanted, at);
            self.timeline
                .markers
                .extend(found.map(|marker| (index, marker)));
        }
        Ok(())
    }
}

impl Collected {
    /// The index of the process of a thread. Adds the process if it was not seen before.
    fn process(&mut self, thread: &Thread<'_>) -> usize {
        let all = &mut self.timeline.processes;
        let same = |process: &TimedProcess| {
            process.pid == thread.raw.pid && process.name == thread.process
        };
        // The threads of a process follow each other.
        if let Some(known) = all.iter().rposition(same) {
            return known;
        }
        all.push(TimedProcess {
            name: thread.process.to_owned(),
            pid: thread.raw.pid.clone(),
            system_pid: system_pid(&thread.raw.pid),
            ..TimedProcess::default()
        });
        all.len() - 1
    }
}

fn markers(
    thread: &Thread<'_>,
    wanted: &str,
    at: ThreadIndex,
) -> impl Iterator<Item = MarkerInterval> {
    let all = thread.markers().filter(move |marker| {
        let is_interval = marker.phase == MarkerPhase::Interval;
        is_interval && marker.name == wanted && marker.start_ms <= marker.end_ms
    });
    all.map(move |marker| MarkerInterval {
        time: Interval {
            start_ns: bounded_ns(marker.start_ms),
            end_ns: bounded_ns(marker.end_ms),
        },
        thread: at,
    })
}

/// The samples of a thread as pieces.
fn pieces(
    thread: &Thread<'_>,
    survey: &Survey,
    places: &mut Places,
    known: &mut KnownPlaces,
) -> Vec<Piece> {
    let begins = thread.raw.samples.1 == WeightType::Milliseconds;
    let pauses = Pauses::of_thread(thread, survey);
    let walls = thread.raw.wall_times_ns(&survey.meta, &pauses);
    let busy = thread.raw.busy_times_ns(&survey.meta, &walls);
    let times = thread.raw.sample_times_ms().map(bounded_ns);
    let mut pieces = Pieces::default();
    for (row, ((stack, at), wall)) in thread.nodes.iter().zip(times).zip(walls).enumerate() {
        let busy = busy.as_ref().and_then(|busy| busy.get(row).copied());
        let end_ns = if begins { at.saturating_add(wall) } else { at };
        let running_ns = busy.unwrap_or(0).min(wall.unsigned_abs()).cast_signed();
        let place = place(places, known, thread, *stack);
        pieces.add(end_ns, (wall, running_ns), place);
    }
    pieces.all
}

/// The pieces of one thread so far.
#[derive(Default)]
struct Pieces {
    all: Vec<Piece>,
    /// The time that the samples so far stand for beyond the lengths of their pieces.
    surplus_ns: i64,
}

impl Pieces {
    fn add(&mut self, at_ns: i64, (weight_ns, running_ns): (i64, i64), place: StackPlace) {
        let last_ns = self.all.last().map(|last| last.time.end_ns);
        let end_ns = last_ns.map_or(at_ns, |last| last.max(at_ns));
        let wanted = weight_ns.saturating_add(self.surplus_ns);
        let start_ns = end_ns
            .saturating_sub(wanted)
            .max(last_ns.unwrap_or(i64::MIN));
        let time = Interval { start_ns, end_ns };
        self.surplus_ns = wanted.saturating_sub(time.length_ns());
        if weight_ns > 0 {
            self.all.push(Piece {
                time,
                weight_ns,
                running_ns,
                place,
            });
        }
    }
}

fn place(
    places: &mut Places,
    known: &mut KnownPlaces,
    thread: &Thread<'_>,
    stack: Option<NodeId>,
) -> StackPlace {
    let KnownPlaces {
        places: known,
        programs,
    } = known;
    let room = stack.and_then(|stack| known.get_mut(stack.0 as usize));
    match room {
        Some(known) => *known.get_or_insert_with(|| places.of(thread.tables, programs, stack)),
        None => places.of(thread.tables, programs, None),
    }
}

/// Adds the parent of each process.
fn add_parents(timeline: &mut Timeline, survey: &Survey) {
    let logs = survey
        .parts
        .iter()
        .flat_map(|part| part.logs.gathering.values());
    for gathered in logs.flat_map(|log| &log.processes) {
        let of_process = gathered.pid_in_profile();
        let all = timeline.processes.iter_mut();
        for process in all.filter(|process| process.system_pid == Some(gathered.pid)) {
            let is_same = process.pid == of_process || process.name == gathered.name;
            if is_same && process.parent.is_none() {
                process.parent = gathered.parent;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_do_not_overlap_and_stand_for_the_time_of_their_samples(
            samples in prop::collection::vec((0..100_i64, 0..50_i64, 0..50_i64), 0..40),
        ) {
            let mut pieces = Pieces::default();
            let mut at = 0;
            let mut sum = 0;
            for (after, wall, ran) in samples {
                at += after;
                sum += wall;
                pieces.add(at, (wall, ran.min(wall)), StackPlace::default());
            }
            for two in pieces.all.windows(2) {
                prop_assert!(two[0].time.end_ns <= two[1].time.start_ns);
            }
            let weights: i64 = pieces.all.iter().map(|piece| piece.weight_ns).sum();
            prop_assert_eq!(weights, sum);
            let lengths: i64 = pieces.all.iter().map(|piece| piece.time.length_ns()).sum();
            prop_assert!(lengths + pieces.surplus_ns <= sum);
            for one in &pieces.all {
                prop_assert!((0..=one.weight_ns).contains(&one.running_ns));
                prop_assert!((one.time.start_ns..=one.time.end_ns).contains(&one.begin_of_run()));
            }
        }
    }
}
