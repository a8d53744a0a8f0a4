//! Decides when the sampler's thread makes its passes.
//!
//! Used by `thread`. If the triggers are timers or perf events, passes only collect samples. While
//! threads run, passes are [`BUSY`] apart, or up to three times as much if threads only run
//! (`alternation`). They are further apart if the process's clock takes long to read, if the
//! interval is long, or if the overhead budget makes it longer. While no thread runs, the time
//! between two passes grows in proportion to the time since the last pass that had work
//! (`wait_period::look_pause`), up to [`longest_pause`].
//!
//! With the source `signal`, and in sessions without stacks, there is a pass at each interval while
//! threads run.

use std::time::{Duration, Instant};

use super::sample_handler::SlotReader;
use super::schedule::{Schedule, jittered, now};
use super::wait_period::look_pause;
use crate::time::Timestamp;

/// The shortest time between two passes while threads run, see [`least_pause`].
pub(super) const BUSY: Duration = Duration::from_millis(40);
/// The factors of [`least_pause`].
const CLOCK_SHARE: u32 = 100;
const INTERVALS: u32 = 5;
/// The bounds of [`longest_pause`].
pub(super) const IDLE: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(1));
/// The factor of [`longest_pause`].
const IDLE_SHARE: u32 = 2000;
/// With [`Cadence::Sampling`], passes are at least [`BUSY`] apart after more than this number of
/// successive passes in which no thread ran.
const MAX_IDLE: u32 = 16;

/// What a pass found, and the bounds of the time until the next pass.
#[derive(Debug)]
pub(super) struct Passed {
    /// Whether the pass found samples, or sampled threads that have run.
    pub(super) has_work: bool,
    /// Whether any thread of the program has run, or a thread waited for the pass.
    pub(super) has_run: bool,
    /// The shortest time until the next pass.
    pub(super) least: Duration,
    /// The longest time until the next pass.
    pub(super) most: Duration,
}

/// When the next pass is due.
#[derive(Debug)]
pub(super) enum Cadence {
    /// The triggers are timers or perf events: passes only collect the samples.
    Collecting {
        pause: Duration,
        /// The last pass that had work.
        worked: Instant,
    },
    /// Each pass asks threads for samples, or records processor time.
    Sampling { schedule: Schedule, idle: u32 },
}

/// The time between two passes while threads run, if a read of the process's clock takes `clock`
/// and the session has this interval: [`INTERVALS`] intervals, or `clock` multiplied by
/// [`CLOCK_SHARE`] if that is longer; at least [`BUSY`] and at most the shorter bound of [`IDLE`].
/// The process's clock takes long to read if there are many threads.
pub(super) fn least_pause(clock: Duration, interval: Duration) -> Duration {
    clock
        .saturating_mul(CLOCK_SHARE)
        .max(interval.saturating_mul(INTERVALS))
        .clamp(BUSY, IDLE.0)
}

/// The longest time between two passes while no thread runs, if a pass takes `cost`: this time
/// multiplied by [`IDLE_SHARE`], within the bounds [`IDLE`].
pub(super) fn longest_pause(cost: Duration) -> Duration {
    cost.saturating_mul(IDLE_SHARE).clamp(IDLE.0, IDLE.1)
}

impl Cadence {
    pub(super) fn new(collects: bool, interval: Duration) -> Self {
        if collects {
            // The first pass finds few threads: a program usually starts its threads afterwards.
            Self::Collecting {
                pause: BUSY / 2,
                worked: now(),
            }
        } else {
            let schedule = Schedule::new(interval, now());
            Self::Sampling { schedule, idle: 0 }
        }
    }

    /// Notes a pass.
    pub(super) fn has_passed(&mut self, passed: &Passed, slots: &SlotReader) {
        let Passed {
            has_work,
            has_run,
            least,
            most,
        } = *passed;
        match self {
            Self::Collecting { pause, worked } => {
                let moment = now();
                if has_work {
                    *worked = moment;
                }
                let idle = moment.saturating_duration_since(*worked);
                let next = look_pause(idle, least, most);
                *pause = jittered(next, Timestamp::now()).min(most.max(least));
                // A sample does not wake the sampler while passes are frequent. Otherwise looks would
                // come at the moments at which the program works, and find too many of the waits of
                // these moments.
                let is_rare = *pause > least * 2;
                slots.wake_at_next(is_rare);
                if is_rare && slots.has_waiting() {
                    // These samples were published before `wake_at_next`, so no handler wakes the
                    // sampler.
                    *pause = BUSY;
                }
            }
            Self::Sampling { idle, .. } => *idle = if has_run { 0 } else { idle.saturating_add(1) },
        }
    }

    /// Notes that there was no pass, because sampling is paused.
    pub(super) const fn rest(&mut self) {
        match self {
            Self::Collecting { pause, .. } => *pause = IDLE.0,
            Self::Sampling { idle, .. } => *idle = idle.saturating_add(1),
        }
    }

    /// The time until the next pass.
    pub(super) fn next(&mut self) -> Duration {
        match self {
            Self::Collecting { pause, .. } => *pause,
            Self::Sampling { schedule, idle } => {
                let next = schedule.after_tick(now());
                if *idle > MAX_IDLE {
                    next.max(BUSY)
                } else {
                    next
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_pass_comes_sooner_than_the_others() {
        let Cadence::Collecting { pause, .. } = Cadence::new(true, MS) else {
            panic!("no timers");
        };
        assert!(pause < BUSY * 3 / 4, "{pause:?}");
    }

    #[test]
    fn passes_are_rarer_with_long_intervals_and_with_many_threads() {
        assert_eq!(least_pause(MS / 1000, MS * 4), BUSY);
        assert_eq!(least_pause(MS / 1000, MS * 10), MS * 50);
        assert_eq!(least_pause(MS, MS * 4), MS * 100);
        assert_eq!(least_pause(MS, MS * 1000), IDLE.0);
        assert_eq!(longest_pause(MS / 1000), IDLE.0);
        assert_eq!(longest_pause(MS), IDLE.1);
    }
}
