//! How often threads are looked at while the program runs: often if they run and wait in turn, and
//! rarely if they only run.
//!
//! Used by `looking` and `observed_waits`. The share of a wait in the life of a thread is estimated
//! from looks. With `n` looks, the standard error of a share `p` is `sqrt(p * (1 - p) / n)`. With
//! 50 looks a second, it is still up to 2 points after 12 s. Looks at threads that run and wait in
//! turn are therefore [`FREQUENT`] apart, or further apart if they would use more than 1 /
//! [`SHARE`] of a processor. A process that looks at its own threads uses at most 1 / [`OWN_SHARE`]
//! of a processor for it, and makes its looks rarer after [`ENOUGH`] of them. They then cost almost
//! nothing in a process that is recorded for days.
//!
//! Threads count as alternating if [`LEAST_NOTES`] looks of the last [`MEMORY`] have found that
//! they alternate. A thread that wakes once in a while does not. If the time to the next look
//! depended only on the last look, waits that are found twice would get too large or too small a
//! part of the time.
//!
//! While threads only run, looks of a process at its own threads become rarer. The time between
//! them is 1 / [`STEADY_LOOKS`] of the time for which the threads have only run, and one to
//! [`MAX_STEADY_FACTOR`] times the shortest such time. The share of waits is near zero then, and so
//! is its error. A process that is killed loses at most the samples of one such time.

use std::time::{Duration, Instant};

/// The average time between two looks at threads that run and wait in turn.
pub(super) const FREQUENT: Duration = Duration::from_millis(5);
/// The average time between two looks, as a multiple of the time that a look takes.
const SHARE: u32 = 50;
/// The same for a process that looks at its own threads.
const OWN_SHARE: u32 = 200;
/// The time between two looks of a process at its own threads is at least the time for which
/// threads have alternated, divided by this number. If looks are [`FREQUENT`] apart, this is the
/// number of looks after which the time between them grows.
const ENOUGH: u32 = 2_400;
/// The time for which a look counts that has found alternating threads.
const MEMORY: Duration = Duration::from_secs(1);
/// The number of such looks that must count for threads to alternate.
pub(super) const LEAST_NOTES: usize = 8;
/// While threads only run, the time between two looks is the time for which they have run so far,
/// divided by this number.
const STEADY_LOOKS: u32 = 50;
/// The longest time between two looks at threads that only run, as a multiple of the shortest.
const MAX_STEADY_FACTOR: u32 = 3;
/// The longest time that counts for threads that only run.
const MAX_STEADY: Duration = Duration::from_secs(10);
/// Each look that finds alternating threads subtracts this from the time for which they only ran.
const STEADY_PER_NOTE: Duration = Duration::from_secs(1);

/// The average time to the next look at alternating threads, if a look takes `cost`.
pub(super) fn frequent_pause(cost: Duration) -> Duration {
    cost.saturating_mul(SHARE).max(FREQUENT)
}

/// Whether the threads of a process run and wait in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alternation {
    /// The last looks that found alternating threads, the latest first.
    noted: [Option<Instant>; LEAST_NOTES],
    /// The time for which threads have alternated so far.
    lasted: Duration,
    /// The time for which threads have only run, less [`STEADY_PER_NOTE`] for each note.
    steady: Duration,
    /// The last look at threads that only ran.
    ran: Option<Instant>,
}

impl Alternation {
    /// Notes that a look found a waiting thread that has run since the previous look.
    pub(super) fn note(&mut self, moment: Instant) {
        let [last, ..] = self.noted;
        let since = moment.saturating_duration_since(last.unwrap_or(moment));
        self.lasted += since.min(MEMORY);
        self.steady = self.steady.saturating_sub(STEADY_PER_NOTE);
        self.noted.rotate_right(1);
        let [last, ..] = &mut self.noted;
        *last = Some(moment);
    }

    /// Notes a look that found running threads, and none of those waits.
    pub(super) fn note_running(&mut self, moment: Instant) {
        let before = self.ran.replace(moment).unwrap_or(moment);
        let ran = moment.saturating_duration_since(before);
        self.steady = if ran > MEMORY {
            Duration::ZERO
        } else {
            (self.steady + ran).min(MAX_STEADY)
        };
    }

    /// The average time to the next look of a process at its own threads, if they do not alternate
    /// and `least` is the shortest such time.
    pub(super) fn steady_pause(&self, least: Duration, moment: Instant) -> Duration {
        let is_now = self
            .ran
            .is_some_and(|ran| moment.saturating_duration_since(ran) <= MEMORY);
        let steady = if is_now { self.steady } else { Duration::ZERO };
        (steady / STEADY_LOOKS).clamp(least, least * MAX_STEADY_FACTOR)
    }

    /// Whether threads count as alternating at this moment.
    pub(super) fn is_found(&self, moment: Instant) -> bool {
        let [.., first] = self.noted;
        first.is_some_and(|first| moment.saturating_duration_since(first) < MEMORY)
    }

    /// The average time to the next look of a process at its own threads, if a look takes `cost`.
    pub(super) fn own_pause(&self, cost: Duration) -> Duration {
        let pause = cost.saturating_mul(OWN_SHARE).max(FREQUENT);
        pause.max(self.lasted / ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::now;
    use super::*;

    #[test]
    fn threads_that_have_alternated_are_looked_at_often_for_a_while() {
        let mut alternation = Alternation::default();
        let moment = now();
        for _ in 0..LEAST_NOTES {
            assert!(!alternation.is_found(moment));
            alternation.note(moment);
        }
        assert!(alternation.is_found(moment + MEMORY / 2));
        assert!(!alternation.is_found(moment + MEMORY));
    }

    #[test]
    fn a_thread_that_wakes_once_in_a_while_does_not_alternate() {
        let mut alternation = Alternation::default();
        let moment = now();
        for turn in 0..100 {
            let at = moment + MEMORY / 4 * turn;
            alternation.note(at);
            assert!(!alternation.is_found(at));
        }
    }

    #[test]
    fn looks_become_rarer_while_threads_alternate_for_long() {
        let mut alternation = Alternation::default();
        let moment = now();
        (0..100).for_each(|turn| alternation.note(moment + MEMORY / 2 * turn));
        let after_50_s = alternation.own_pause(Duration::ZERO);
        assert!(after_50_s > FREQUENT * 4, "{after_50_s:?}");
        alternation.note(moment + MEMORY * 10_000);
        let after_idleness = alternation.own_pause(Duration::ZERO);
        assert!(after_idleness < after_50_s + FREQUENT, "{after_idleness:?}");
    }

    #[test]
    fn looks_become_rarer_while_threads_only_run() {
        let least = Duration::from_millis(40);
        let mut alternation = Alternation::default();
        let moment = now();
        let run_for = |alternation: &mut Alternation, from: u32, until: u32| {
            (from..=until).for_each(|at| alternation.note_running(moment + least * at));
            alternation.steady_pause(least, moment + least * until)
        };
        assert_eq!(run_for(&mut alternation, 0, 50), least, "2 s");
        assert_eq!(run_for(&mut alternation, 51, 100), least * 2, "4 s");
        assert_eq!(run_for(&mut alternation, 101, 1_000), least * 3);
        for _ in 0..MAX_STEADY.as_secs() {
            alternation.note(moment + least * 1_000);
        }
        assert_eq!(
            alternation.steady_pause(least, moment + least * 1_000),
            least
        );
    }

    #[test]
    fn looks_are_not_rare_after_the_threads_were_idle() {
        let least = Duration::from_millis(40);
        let mut alternation = Alternation::default();
        let moment = now();
        (0..1_000).for_each(|at| alternation.note_running(moment + least * at));
        let later = moment + least * 1_000 + MEMORY * 2;
        assert_eq!(alternation.steady_pause(least, later), least);
        alternation.note_running(later);
        assert_eq!(alternation.steady_pause(least, later), least);
    }

    #[test]
    fn expensive_looks_are_rarer() {
        let own = Alternation::default().own_pause(Duration::from_micros(100));
        assert_eq!(own, Duration::from_millis(20));
        assert_eq!(frequent_pause(Duration::from_micros(10)), FREQUENT);
        assert_eq!(
            frequent_pause(Duration::from_millis(1)),
            Duration::from_millis(50)
        );
    }
}
