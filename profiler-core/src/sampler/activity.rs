//! Finds out from the process's clock whether any thread of the program has run.
//!
//! Called by `thread` at the start of each pass. The process's clock contains the time of the
//! profiler's own threads, so the clocks of these threads are subtracted. When one of these threads
//! ends, its time counts as the program's. Reading the process's clock takes about 0.2 µs per
//! thread of the process.

use std::time::{Duration, Instant};

use super::schedule::now;
use crate::sys;
use crate::sys::native::tasks;

/// The program has run if its threads have used more than this processor time, in nanoseconds,
/// within [`MOMENT_WITHIN`]. The clocks are not read at the same instant, so the threads may use up
/// to the sum of this time and the time of two reads of the process's clock before the program is
/// seen to have run.
///
/// A thread that goes from one wait to another usually uses more. If such runs were not seen, the
/// time of the second wait would be in the first.
pub(super) const MOMENT: u64 = 2_000;
const MOMENT_WITHIN: Duration = Duration::from_secs(2);

/// The clocks at the start of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessClocks {
    /// Processor time of the process in nanoseconds; `None` if the system does not report it.
    pub(super) process: Option<u64>,
    /// The time just after the process's clock was read.
    pub(super) read: Instant,
    /// Processor time of the sampler's thread in nanoseconds, before the process's clock was read.
    pub(super) own_before: u64,
    /// The same after the process's clock was read.
    pub(super) own_after: u64,
    /// Processor time of the profiler's other threads in nanoseconds.
    pub(super) others: u64,
}

impl ProcessClocks {
    /// Reads the clocks. Called by the sampler's thread.
    pub(super) fn read() -> Self {
        let own_before = tasks::own_cpu_ns();
        let process = sys::process_cpu_ns();
        Self {
            process,
            read: now(),
            own_before,
            own_after: tasks::own_cpu_ns(),
            others: others_ns(),
        }
    }

    /// The processor time that the read of the process's clock took.
    pub(super) const fn cost(&self) -> Duration {
        Duration::from_nanos(self.own_after.saturating_sub(self.own_before))
    }
}

/// Processor time of the profiler's own threads in nanoseconds, without the calling thread.
fn others_ns() -> u64 {
    let own = sys::current_thread_id();
    profiler_sys::own_thread_numbers()
        .map(crate::ids::ThreadId::new)
        .filter(|thread| *thread != own)
        .filter_map(tasks::cpu_ns)
        .sum()
}

/// The processor time of the program's threads, compared from pass to pass.
#[derive(Debug)]
pub(super) struct ProgramActivity {
    /// The processor time at the last pass, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// The processor time with which the present one is compared, in nanoseconds.
    compared_ns: u64,
    /// When `compared_ns` was read.
    since: Instant,
}

impl ProgramActivity {
    pub(super) fn new() -> Self {
        Self {
            cpu_ns: 0,
            compared_ns: 0,
            since: now(),
        }
    }

    /// Whether any thread of the program, sampled or not, has run: whether the program's processor
    /// time has grown by more than [`MOMENT`] since an earlier call. The earlier call is the last
    /// one that returned true, or a later one if more than [`MOMENT_WITHIN`] has passed since then.
    ///
    /// Always true if the system does not report the process's clock.
    pub(super) fn has_run(&mut self, clocks: &ProcessClocks) -> bool {
        let Some(process) = clocks.process else {
            return true;
        };
        let process = process.saturating_sub(clocks.others);
        // The process's clock takes long to read if there are many threads. It contains a time of
        // this thread that is between `own_before` and `own_after`.
        let at_least = process.saturating_sub(clocks.own_after);
        self.cpu_ns = process.saturating_sub(clocks.own_before);
        let has_run = at_least.saturating_sub(self.compared_ns) > MOMENT;
        if has_run || clocks.read.saturating_duration_since(self.since) > MOMENT_WITHIN {
            (self.compared_ns, self.since) = (self.cpu_ns, clocks.read);
        }
        has_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(read: Instant, process: u64, own: u64, others: u64) -> ProcessClocks {
        ProcessClocks {
            process: Some(process),
            read,
            own_before: own,
            own_after: own + 10,
            others,
        }
    }

    #[test]
    fn the_time_of_the_profilers_threads_is_not_the_programs() {
        let start = now();
        let mut activity = ProgramActivity::new();
        assert!(activity.has_run(&clocks(start, 10 * MOMENT, MOMENT, MOMENT)));
        assert!(!activity.has_run(&clocks(start, 16 * MOMENT, 3 * MOMENT, 5 * MOMENT)));
        assert_eq!(activity.cpu_ns, 8 * MOMENT);
        assert!(activity.has_run(&clocks(start, 18 * MOMENT, 3 * MOMENT, 5 * MOMENT)));
    }

    #[test]
    fn short_runs_add_up_for_two_seconds() {
        let start = now();
        let mut activity = ProgramActivity::new();
        assert!(activity.has_run(&clocks(start, 10 * MOMENT, 0, 0)));
        let used = |part: u64| 10 * MOMENT + part * MOMENT / 4;
        for part in 1..=4 {
            assert!(!activity.has_run(&clocks(start, used(part), 0, 0)));
        }
        assert!(activity.has_run(&clocks(start, used(5), 0, 0)));
        let later = start + MOMENT_WITHIN * 2;
        assert!(!activity.has_run(&clocks(later, used(8), 0, 0)));
        assert!(
            !activity.has_run(&clocks(later, used(11), 0, 0)),
            "after a new start"
        );
    }

    #[test]
    fn the_process_clock_contains_the_time_of_other_threads() {
        let before = ProcessClocks::read().process.unwrap();
        let busy = || while tasks::own_cpu_ns() < 4 * MOMENT {};
        std::thread::scope(|scope| drop(scope.spawn(busy).join()));
        assert!(ProcessClocks::read().process.unwrap() >= before + 4 * MOMENT);
    }

    #[test]
    fn a_process_without_a_clock_counts_as_running() {
        let mut activity = ProgramActivity::new();
        let clocks = ProcessClocks {
            process: None,
            ..ProcessClocks::read()
        };
        assert!(activity.has_run(&clocks) && activity.has_run(&clocks));
    }
}
