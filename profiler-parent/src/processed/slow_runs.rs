//! The threads that show the slow runs of a process as markers.
//!
//! A run names its thread. If several threads have this name, the one that used most of the
//! processor in the profile's range shows the run. If no thread has it, the main thread does.

use profiler_gecko::model::{Place, SlowRunMarker};

use super::first_pass::SortedProcess;

/// The slow runs of a process, each with the thread that shows it.
#[derive(Debug, Default)]
pub(super) struct PlacedRuns(Vec<(Place, SlowRunMarker)>);

impl PlacedRuns {
    /// Finds the threads of these runs.
    pub(super) fn new(runs: &[SlowRunMarker], process: &SortedProcess) -> Self {
        let place = |run: &SlowRunMarker| {
            let place = run.thread.as_deref().and_then(|name| named(name, process));
            Some((place.or_else(|| main(process))?, run.clone()))
        };
        Self(runs.iter().filter_map(place).collect())
    }

    /// The runs that the thread at this place shows.
    pub(super) fn of(&self, place: Place) -> impl Iterator<Item = &SlowRunMarker> {
        self.0
            .iter()
            .filter(move |(of, _)| *of == place)
            .map(|(_, run)| run)
    }
}

impl PlacedRuns {
    /// The time in nanoseconds and the number of the runs of the group whose track has this name.
    pub(super) fn of_group(&self, track: &str) -> (i64, u64) {
        let runs = self.0.iter().map(|(_, run)| run);
        let runs = runs.filter(|run| {
            let group = track.strip_prefix(run.kind.as_str());
            group.and_then(|rest| rest.strip_prefix(' ')) == Some(run.group.as_str())
        });
        runs.fold((0_i64, 0), |(ns, number), run| {
            let took_ns = run.to_ns.saturating_sub(run.from_ns);
            (ns.saturating_add(took_ns), number + 1)
        })
    }
}

fn named(name: &str, process: &SortedProcess) -> Option<Place> {
    let threads = process.snapshot.threads.iter().zip(&process.threads);
    threads
        .enumerate()
        .filter(|(_, (info, sorted))| {
            info.name == name && (info.is_main || !sorted.is_servant(info))
        })
        .max_by_key(|(place, (_, sorted))| (sorted.cpu_ns, std::cmp::Reverse(*place)))
        .map(|(place, _)| place)
}

fn main(process: &SortedProcess) -> Option<Place> {
    process
        .snapshot
        .threads
        .iter()
        .position(|thread| thread.is_main)
}
