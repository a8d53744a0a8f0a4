//! Chooses the threads that a viewer shows at first, and the thread that it selects.
//!
//! A main thread represents its process, so the main threads of the busiest processes are shown,
//! and always the main thread of the root. In the evidence of an alert, only processes that did
//! something are shown, and the first thread with a slow run is selected. The busiest other threads
//! of these processes are shown as well. The user can show all others in the viewer.

use std::collections::{HashMap, HashSet};

/// Limit on the processes, and on the other threads, that are shown at first.
const MAX: usize = 15;
/// A thread is not shown at first if its activity is less than a twentieth of that of the busiest
/// thread.
const LEAST_SHARE: u64 = 20;

/// The properties of a thread that decide whether it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    /// Number of its process.
    pub(super) process: usize,
    pub(super) is_main: bool,
    pub(super) cpu_ns: u64,
    pub(super) busy_samples: u64,
    pub(super) markers: u64,
    /// Number of markers of slow runs.
    pub(super) slow_runs: usize,
}

impl Activity {
    /// Whether the thread did anything that the profile shows.
    const fn is_active(&self) -> bool {
        self.cpu_ns > 0 || self.busy_samples > 0 || self.markers > 0 || self.slow_runs > 0
    }

    /// The activity of a thread: processor time if any thread has some, otherwise samples,
    /// otherwise markers. `best` contains the maximum of each.
    const fn score(&self, best: &Self) -> u64 {
        if best.cpu_ns > 0 {
            self.cpu_ns
        } else if best.busy_samples > 0 {
            self.busy_samples
        } else {
            self.markers
        }
    }
}

/// The threads that are shown at first, in order, and the selected thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Visible {
    pub(super) threads: Vec<usize>,
    pub(super) selected: usize,
}

/// Chooses among all threads of the profile. The root is process number 0.
pub(super) fn choose(threads: &[Activity]) -> Visible {
    let best = threads
        .iter()
        .fold(Activity::default(), |best, thread| Activity {
            cpu_ns: best.cpu_ns.max(thread.cpu_ns),
            busy_samples: best.busy_samples.max(thread.busy_samples),
            markers: best.markers.max(thread.markers),
            ..best
        });
    let scores: Vec<u64> = threads.iter().map(|thread| thread.score(&best)).collect();
    let most = scores.iter().copied().max().unwrap_or(0);
    let mut by_process: HashMap<usize, u64> = HashMap::new();
    for (thread, score) in threads.iter().zip(&scores) {
        let sum = by_process.entry(thread.process).or_default();
        *sum = sum.saturating_add(*score);
    }
    let score_at = |place: usize| scores.get(place).copied().unwrap_or(0);
    let (mut mains, mut others): (Vec<_>, Vec<_>) = threads
        .iter()
        .enumerate()
        .partition(|(_, thread)| thread.is_main);
    mains.sort_by_cached_key(|(_, main)| {
        (
            main.process != 0,
            std::cmp::Reverse(by_process.get(&main.process).copied()),
        )
    });
    let slow: Vec<usize> = (0..threads.len())
        .filter(|place| threads.get(*place).is_some_and(|one| one.slow_runs > 0))
        .collect();
    if !slow.is_empty() {
        let active = threads.iter().filter(|thread| thread.is_active());
        let active: HashSet<usize> = active.map(|thread| thread.process).collect();
        mains.retain(|(_, main)| active.contains(&main.process));
    }
    mains.truncate(MAX);
    // A thread of the program has as many markers as it happens to have.
    let least = match best.cpu_ns.max(best.busy_samples) {
        0 => 1,
        _ => most / LEAST_SHARE,
    };
    others.retain(|(place, thread)| {
        let is_busy = score_at(*place) > 0 && score_at(*place) >= least;
        is_busy && mains.iter().any(|(_, main)| main.process == thread.process)
    });
    others.sort_by_key(|(place, _)| std::cmp::Reverse(score_at(*place)));
    others.truncate(MAX);
    let mut shown: Vec<usize> = mains
        .iter()
        .chain(&others)
        .map(|(place, _)| *place)
        .collect();
    shown.extend(&slow);
    shown.sort_unstable();
    shown.dedup();
    let busiest = shown
        .iter()
        .copied()
        .rev()
        .max_by_key(|place| score_at(*place))
        .unwrap_or(0);
    let selected = slow.first().copied().unwrap_or(busiest);
    Visible {
        threads: shown,
        selected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(process: usize, is_main: bool, cpu_ns: u64) -> Activity {
        Activity {
            process,
            is_main,
            cpu_ns,
            ..Activity::default()
        }
    }

    #[test]
    fn main_threads_and_the_busiest_are_shown_and_idle_ones_are_not() {
        let threads = [
            thread(0, true, 0),
            thread(0, false, 10),
            thread(1, true, 5),
            thread(1, false, 1000),
            thread(1, false, 900),
        ];
        assert_eq!(
            choose(&threads),
            Visible {
                threads: vec![0, 2, 3, 4],
                selected: 3
            }
        );
    }

    #[test]
    fn the_root_and_the_busiest_of_many_processes_are_shown() {
        let threads: Vec<_> = (0..100)
            .map(|number| thread(number, true, number as u64))
            .collect();
        let visible = choose(&threads);
        assert_eq!(visible.threads.len(), MAX);
        assert_eq!(
            (visible.threads[0], visible.threads[1], visible.selected),
            (0, 86, 99)
        );
    }

    #[test]
    fn a_thread_with_a_slow_run_is_shown_and_selected_even_if_it_was_idle() {
        let slow = Activity {
            slow_runs: 1,
            ..thread(1, false, 0)
        };
        let threads = [
            thread(0, true, 500),
            thread(1, true, 0),
            slow,
            thread(1, false, 1),
            thread(2, true, 0),
        ];
        assert_eq!(
            choose(&threads),
            Visible {
                threads: vec![0, 1, 2],
                selected: 2
            },
            "process 2 did nothing"
        );
    }

    #[test]
    fn without_samples_a_thread_with_few_markers_is_shown() {
        let with = |is_main, markers| Activity {
            markers,
            ..thread(0, is_main, 0)
        };
        let threads = [with(true, 1000), with(false, 4), with(false, 0)];
        assert_eq!(choose(&threads).threads, [0, 1]);
    }

    #[test]
    fn markers_count_if_there_are_no_samples() {
        let quiet = thread(0, true, 0);
        let threads = [
            quiet,
            Activity {
                markers: 7,
                is_main: false,
                ..quiet
            },
        ];
        assert_eq!(
            choose(&threads),
            Visible {
                threads: vec![0, 1],
                selected: 1
            }
        );
    }
}
