//! The part of a thread's run delay that belongs to the code that runs.
//!
//! Used by `looking` and `observed_look`. The run delay is the time in which a thread is ready to
//! run and has no processor. After a wait, the delay belongs to the wait. After another thread has
//! taken the processor, it belongs to the running code. The system counts one sum of both delays
//! (`schedstat`) and the number of switches of each kind (`status`). The sum is therefore divided
//! in proportion to the numbers of switches.
//!
//! Reading the switches takes twice as long as reading the run delay. After the first look, they
//! are read only if the delay is long enough to be visible in a profile ([`LEAST_NS`]). While looks
//! find the thread running, up to [`MAX_ESTIMATES`] delays in a row are divided in the ratio of the
//! last division. The next divisions correct the sum of these estimates.

use crate::sys::native::tasks::Switches;

/// The shortest delay that is divided, in nanoseconds. A shorter one is added to the next delay.
const LEAST_NS: u64 = 100_000;
/// The number of successive delays that are divided without a read of the switches.
const MAX_ESTIMATES: u8 = 15;

/// The run delay of a thread at the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunDelay {
    /// The part of the thread's run delay that was already divided; `None` before the first look.
    divided_ns: Option<u64>,
    /// The switches at that time; `None` if the system did not report them.
    switches: Option<Switches>,
    /// The last division: the delay, and the part of it that belongs to the running code.
    last_ns: (u64, u64),
    /// The run delay at the last estimate, and the sum of the estimates since the last division.
    estimated_ns: (u64, u64),
    estimates: u8,
}

impl RunDelay {
    /// The state before the first look.
    pub(super) const fn new() -> Self {
        Self {
            divided_ns: None,
            switches: None,
            last_ns: (0, 0),
            estimated_ns: (0, 0),
            estimates: MAX_ESTIMATES,
        }
    }

    /// Whether there was a first look.
    pub(super) const fn has_begun(&self) -> bool {
        self.divided_ns.is_some()
    }

    /// Estimates the part of the delay since the last call that belongs to the running code, in
    /// nanoseconds, from the last division. `None` if the switches must be read.
    pub(super) fn estimate(&mut self, delay_ns: u64) -> Option<u64> {
        let (seen_ns, sum) = self.estimated_ns;
        let (last, of_running) = self.last_ns;
        if self.estimates >= MAX_ESTIMATES || last == 0 {
            return None;
        }
        self.estimates += 1;
        let part = part_of(delay_ns.saturating_sub(seen_ns), of_running, last);
        self.estimated_ns = (delay_ns.max(seen_ns), sum.saturating_add(part));
        Some(part)
    }

    /// Returns the part of the delay since the last division that belongs to the running code, in
    /// nanoseconds. `delay_ns` is the run delay of the thread so far. The first call returns 0.
    pub(super) fn of_running(
        &mut self,
        delay_ns: u64,
        switches: impl FnOnce() -> Option<Switches>,
    ) -> u64 {
        let Some(divided_ns) = self.divided_ns else {
            (self.divided_ns, self.switches) = (Some(delay_ns), switches());
            return 0;
        };
        let delayed = delay_ns.saturating_sub(divided_ns);
        if delayed < LEAST_NS {
            return 0;
        }
        self.divided_ns = Some(delay_ns);
        let now = switches();
        let before = std::mem::replace(&mut self.switches, now);
        let part = match (before, now) {
            (Some(before), Some(now)) => part_of_running(delayed, before, now),
            _ => delayed,
        };
        let (_, estimated) = self.estimated_ns;
        self.estimated_ns = (delay_ns, estimated.saturating_sub(part));
        (self.last_ns, self.estimates) = ((delayed, part), 0);
        part.saturating_sub(estimated)
    }
}

/// Returns `whole * part / all`.
fn part_of(whole: u64, part: u64, all: u64) -> u64 {
    let part = u128::from(whole) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(whole)
}

/// Returns the part of `delayed` that belongs to the switches in which the thread lost its
/// processor.
fn part_of_running(delayed: u64, before: Switches, now: Switches) -> u64 {
    let lost = now.lost.saturating_sub(before.lost);
    let all = lost.saturating_add(now.waited.saturating_sub(before.waited));
    if all == 0 {
        return delayed; // the thread is still ready to run
    }
    part_of(delayed, lost, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn switches(waited: u64, lost: u64) -> Option<Switches> {
        Some(Switches { waited, lost })
    }

    fn begun() -> RunDelay {
        let mut delay = RunDelay::new();
        assert_eq!(delay.of_running(50 * MS, || switches(10, 10)), 0, "before");
        delay
    }

    #[test]
    fn the_delay_after_a_wait_is_not_of_the_running_code() {
        assert_eq!(begun().of_running(51 * MS, || switches(14, 10)), 0);
    }

    #[test]
    fn the_delay_of_a_thread_that_lost_its_processor_is_of_the_running_code() {
        assert_eq!(begun().of_running(51 * MS, || switches(10, 12)), MS);
        assert_eq!(begun().of_running(51 * MS, || switches(10, 10)), MS);
    }

    #[test]
    fn a_delay_of_both_kinds_is_divided_by_the_switches() {
        assert_eq!(begun().of_running(54 * MS, || switches(13, 11)), MS);
    }

    #[test]
    fn a_delay_whose_switches_are_not_reported_is_of_the_running_code() {
        assert_eq!(begun().of_running(54 * MS, || None), 4 * MS);
    }

    #[test]
    fn estimates_are_like_the_last_division_and_corrected_by_the_next() {
        let mut delay = begun();
        assert_eq!(delay.estimate(51 * MS), None, "nothing was divided");
        assert_eq!(delay.of_running(54 * MS, || switches(12, 12)), 2 * MS);
        assert_eq!(delay.estimate(64 * MS), Some(5 * MS));
        assert_eq!(delay.estimate(66 * MS), Some(MS));
        let part = delay.of_running(74 * MS, || switches(12, 13));
        assert_eq!(
            part,
            20 * MS - 6 * MS,
            "all of the delay is of the running code"
        );
        assert_eq!(delay.estimate(94 * MS), Some(20 * MS));
        assert_eq!(delay.of_running(114 * MS, || switches(22, 13)), 0, "a wait");
        assert_eq!(
            delay.of_running(144 * MS, || switches(22, 14)),
            10 * MS,
            "20 were too much"
        );
        let estimates = (0..100).map_while(|_| delay.estimate(145 * MS)).count();
        assert_eq!(estimates, usize::from(MAX_ESTIMATES));
    }

    #[test]
    fn short_delays_are_added_up() {
        let mut delay = begun();
        let part = LEAST_NS / 4 * 3;
        let sum = |times| 50 * MS + times * part;
        assert_eq!(delay.of_running(sum(1), || panic!("read")), 0);
        assert_eq!(delay.of_running(sum(2), || switches(10, 11)), 2 * part);
    }
}
