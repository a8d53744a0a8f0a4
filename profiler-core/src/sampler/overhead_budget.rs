//! The interval between two samples of a thread while the session has an overhead budget.
//!
//! The interval is a multiple of the session's, at most [`LONGEST`]. About once a second the cost
//! of sampling since the last decision is compared with the budget. A cost above the budget makes
//! the interval longer, a cost far below it makes the interval shorter. Nothing here reads a clock.
//!
//! ```text
//! cost     processor time of the sampler's thread and of the signal handlers
//! allowed  the budget's part of the time that the process itself used
//!
//! cost > allowed                    ▶ longer: cost · TARGET aims at allowed, at most × 4
//! cost < SHRINK · allowed           ▶ shorter, in the same way, at least ÷ 4
//! otherwise                         ▶ unchanged
//! ```
//!
//! A part of the cost does not depend on the interval. So a longer interval saves less than its
//! factor, and it takes several decisions to reach the budget. No decision goes beyond the interval
//! at which the cost is [`TARGET`] of what is allowed.
//!
//! The cost of a sample is known only after several samples. So the interval becomes shorter only
//! after [`ENOUGH`] intervals of processor time. It becomes longer earlier only if the cost already
//! exceeds what is allowed for [`ENOUGH`] intervals.
//!
//! Without a budget, only the handlers are counted.

use super::covered_time::time_of_ns;
use std::time::Duration;

use crate::params::OverheadBudget;

/// The longest interval that a budget chooses.
const LONGEST: Duration = Duration::from_secs(1);
/// The time between two decisions.
const PERIOD: Duration = Duration::from_secs(1);
/// The processor time below which a process is almost idle, and keeps its interval.
const IDLE_NS: u64 = 1_000_000;
/// The number of intervals of processor time after which the cost of a sample is known.
const ENOUGH: u64 = 8;
/// The part of what is allowed that a decision aims at, in percent.
const TARGET: u64 = 90;
/// The part of what is allowed below which the interval becomes shorter, in percent.
const SHRINK: u64 = 70;
/// The maximum factor of one decision.
const STEP: u64 = 4;
/// The longest time that counts for a handler. If it took longer, its thread had no processor.
const LONGEST_HANDLER_NS: u64 = 100_000;

/// Readings of the clocks, each since a fixed moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clocks {
    pub(super) at: Duration,
    /// Processor time of the sampler's thread.
    pub(super) sampler_ns: u64,
    /// Processor time of the program's threads, with the handlers that run on them.
    pub(super) others_ns: u64,
}

/// The time and the number of signal handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Handlers {
    ns: u64,
    samples: u64,
}

/// Chooses the interval.
#[derive(Debug)]
pub(super) struct OverheadControl {
    budget: Option<OverheadBudget>,
    /// The session's interval, which the present one is a multiple of.
    least_ns: u64,
    /// The session's interval in units of timestamps.
    tick: u64,
    multiple: u64,
    most: u64,
    /// The clocks at the last decision; `None` before the first reading.
    since: Option<Clocks>,
    /// The handlers since the last decision.
    handlers: Handlers,
    /// The time of these handlers up to the last pass.
    told_ns: u64,
}

impl OverheadControl {
    /// `least` is the session's interval, and `tick` the same in units of timestamps.
    pub(super) fn new(budget: Option<OverheadBudget>, least: Duration, tick: u64) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let least_ns = nanos(least).max(1);
        Self {
            budget,
            least_ns,
            tick: tick.max(1),
            multiple: 1,
            most: (nanos(LONGEST) / least_ns).max(1),
            since: None,
            handlers: Handlers::default(),
            told_ns: 0,
        }
    }

    /// Whether the interval may change.
    pub(super) const fn has_budget(&self) -> bool {
        self.budget.is_some()
    }

    /// The present interval.
    pub(super) fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns())
    }

    /// The present interval in nanoseconds.
    pub(super) const fn interval_ns(&self) -> u64 {
        self.least_ns.saturating_mul(self.multiple)
    }

    /// The time between two passes while threads run: it grows with the interval, from `least` to
    /// `most`.
    pub(super) fn pause(&self, least: Duration, most: Duration) -> Duration {
        let multiple = u32::try_from(self.multiple).unwrap_or(u32::MAX);
        least.saturating_mul(multiple).min(most)
    }

    /// A processor time in units of timestamps.
    pub(super) fn time_of(&self, cpu_ns: u64) -> u64 {
        time_of_ns(cpu_ns, self.tick, self.least_ns)
    }

    /// Forgets the costs so far, after a pause.
    pub(super) fn begin_anew(&mut self) {
        self.since = None;
    }

    /// Counts a handler that ran for `held` units of timestamps.
    pub(super) fn count_handler(&mut self, held: u64) {
        let ns = u128::from(held) * u128::from(self.least_ns) / u128::from(self.tick);
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        let sum = self.handlers.ns.saturating_add(ns.min(LONGEST_HANDLER_NS));
        self.handlers.ns = sum;
        self.handlers.samples += 1;
    }

    /// The time of the handlers since the last pass. Called once per pass, before
    /// [`Self::decide`].
    pub(super) fn take_handlers_ns(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.told_ns, self.handlers.ns);
        self.handlers.ns.saturating_sub(before)
    }

    /// Decides about the interval, if a decision is due. Returns whether it has changed.
    pub(super) fn decide(&mut self, now: Clocks) -> bool {
        let Some(budget) = self.budget else {
            return false;
        };
        let Some(since) = self.since else {
            self.restart(now);
            return false;
        };
        if now.at.saturating_sub(since.at) < PERIOD {
            return false;
        }
        let others_ns = now.others_ns.saturating_sub(since.others_ns);
        let own_ns = others_ns.saturating_sub(self.handlers.ns);
        let sampler_ns = now.sampler_ns.saturating_sub(since.sampler_ns);
        let cost_ns = sampler_ns.saturating_add(self.handlers.ns);
        let Some(next) = self.next(budget, cost_ns, own_ns) else {
            return false;
        };
        self.restart(now);
        std::mem::replace(&mut self.multiple, next) != next
    }

    fn restart(&mut self, now: Clocks) {
        self.since = Some(now);
        self.handlers = Handlers::default();
        self.told_ns = 0;
    }

    /// The next multiple; `None` if it is too early to decide.
    fn next(&self, budget: OverheadBudget, cost_ns: u64, own_ns: u64) -> Option<u64> {
        if own_ns < IDLE_NS {
            return Some(self.multiple);
        }
        let enough_ns = self.interval_ns().saturating_mul(ENOUGH);
        let allowed_ns = budget.part_of_ns(own_ns.max(enough_ns)).max(1);
        let wanted = self.multiple_for(cost_ns, allowed_ns);
        if cost_ns > allowed_ns {
            // Without samples, a longer interval saves nothing.
            let longer = wanted
                .min(self.multiple.saturating_mul(STEP))
                .min(self.most);
            let has_samples = self.handlers.samples > 0;
            return Some(if has_samples { longer } else { self.multiple });
        }
        if own_ns < enough_ns {
            return None;
        }
        let is_far_below = u128::from(cost_ns) * 100 < u128::from(allowed_ns) * u128::from(SHRINK);
        let shorter = wanted.max(self.multiple.div_ceil(STEP));
        Some(if is_far_below { shorter } else { self.multiple })
    }

    /// The smallest multiple at which the cost is [`TARGET`] of what is allowed, if the whole cost
    /// depends on the interval.
    fn multiple_for(&self, cost_ns: u64, allowed_ns: u64) -> u64 {
        let cost = u128::from(cost_ns) * u128::from(self.multiple) * 100;
        let wanted = cost.div_ceil(u128::from(allowed_ns) * u128::from(TARGET));
        u64::try_from(wanted).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// The time between two passes in these tests.
    const PASS: u64 = SECOND / 5;

    /// A process whose load is constant.
    #[derive(Clone, Copy, Debug)]
    struct Load {
        /// Processor time of the process per second.
        own_ns: u64,
        /// The cost of a sample: of the handler, and of the sampler's thread.
        sample_ns: [u64; 2],
        /// The cost of the sampler per second, whatever the interval is.
        fixed_ns: u64,
    }

    impl Load {
        /// The cost per second with this interval.
        fn cost_ns(self, interval_ns: u64) -> f64 {
            let samples = self.own_ns as f64 / interval_ns as f64;
            self.fixed_ns as f64 + samples * self.sample_ns.iter().sum::<u64>() as f64
        }
    }

    /// A process with its sampler.
    struct Simulated {
        control: OverheadControl,
        clocks: Clocks,
        /// Processor time since the last sample.
        unsampled_ns: u64,
    }

    impl Simulated {
        fn new(budget: Option<u32>, least_ns: u64) -> Self {
            let budget = budget.map(OverheadBudget::new);
            Self {
                control: OverheadControl::new(budget, Duration::from_nanos(least_ns), least_ns),
                clocks: Clocks::default(),
                unsampled_ns: 0,
            }
        }

        /// Runs for some seconds; returns the cost and the time of the process itself.
        fn run(&mut self, load: Load, seconds: u64) -> (u64, u64) {
            let (mut cost_ns, mut all_ns) = (0, 0);
            for _ in 0..seconds * (SECOND / PASS) {
                let own_ns = load.own_ns * PASS / SECOND;
                self.unsampled_ns += own_ns;
                let interval_ns = self.control.interval_ns();
                let samples = self.unsampled_ns / interval_ns;
                self.unsampled_ns %= interval_ns;
                let [handler_ns, sampler_ns] = load.sample_ns.map(|ns| ns * samples);
                let sampler_ns = sampler_ns + load.fixed_ns * PASS / SECOND;
                self.clocks.at += Duration::from_nanos(PASS);
                self.clocks.sampler_ns += sampler_ns;
                self.clocks.others_ns += own_ns + handler_ns;
                self.control.handlers.ns += handler_ns;
                self.control.handlers.samples += samples;
                assert_eq!(self.control.take_handlers_ns(), handler_ns);
                self.control.decide(self.clocks);
                cost_ns += sampler_ns + handler_ns;
                all_ns += own_ns;
            }
            (cost_ns, all_ns)
        }
    }

    /// From 10 ms to 4 s of processor time per second.
    fn load() -> impl Strategy<Value = Load> {
        let sample_ns = [500_u64..500_000, 500..500_000];
        let fixed_ns = prop_oneof![Just(0), 1_000_u64..1_000_000];
        (10_000_000..4 * SECOND, sample_ns, fixed_ns).prop_map(|(own_ns, sample_ns, fixed_ns)| {
            Load {
                own_ns,
                sample_ns,
                fixed_ns,
            }
        })
    }

    const INTERVALS: [u64; 4] = [1_000_000, 4_000_000, 10_000_000, 100_000_000];

    proptest! {
        #[test]
        fn s1_in_the_long_run_the_overhead_is_within_a_budget_that_can_be_reached(
            load in load(),
            hundredths in 1_u32..3_000,
            least_ns in prop::sample::select(&INTERVALS[..]),
        ) {
            let budget = OverheadBudget::new(hundredths);
            let lowest = load.cost_ns(LONGEST.as_nanos() as u64);
            prop_assume!(lowest < 0.8 * budget.part_of_ns(load.own_ns) as f64);
            let mut simulated = Simulated::new(Some(hundredths), least_ns);
            simulated.run(load, 700);
            let (cost_ns, own_ns) = simulated.run(load, 700);
            prop_assert!(
                cost_ns <= budget.part_of_ns(own_ns),
                "{cost_ns} of {own_ns} ns, interval {:?}",
                simulated.control.interval()
            );
        }

        #[test]
        fn the_interval_of_the_session_returns_when_the_cost_falls(
            load in load(),
            hundredths in 1_u32..3_000,
            least_ns in prop::sample::select(&INTERVALS[..]),
        ) {
            let mut simulated = Simulated::new(Some(hundredths), least_ns);
            simulated.run(load, 100);
            // Without cost per sample, and the fixed part below half of what is allowed.
            let allowed_ns = OverheadBudget::new(hundredths).part_of_ns(load.own_ns);
            let cheap = Load { sample_ns: [0, 0], fixed_ns: allowed_ns * 2 / 5, ..load };
            // At most about 50 s of processor time.
            simulated.run(cheap, 100 + 50 * SECOND / load.own_ns);
            prop_assert_eq!(simulated.control.interval_ns(), least_ns);
        }

        #[test]
        fn the_interval_stays_between_the_sessions_and_the_longest(
            loads in prop::collection::vec(load(), 1..5),
            hundredths in 1_u32..=10_000,
            least_ns in 1_u64..5 * SECOND,
        ) {
            let mut simulated = Simulated::new(Some(hundredths), least_ns);
            for load in loads {
                simulated.run(load, 20);
                let interval = simulated.control.interval();
                let least = Duration::from_nanos(least_ns);
                prop_assert!(least <= interval && interval <= LONGEST.max(least));
            }
        }
    }

    const COSTLY: Load = Load {
        own_ns: SECOND,
        sample_ns: [5_000, 20_000],
        fixed_ns: 100_000,
    };

    #[test]
    fn the_interval_is_no_longer_than_the_budget_needs() {
        let mut simulated = Simulated::new(Some(10), 4_000_000);
        simulated.run(COSTLY, 60);
        // 0.1 % of a second is 1 ms: 36 samples beside the fixed part, 28 ms apart. A decision aims
        // at nine tenths of it.
        let interval = simulated.control.interval();
        assert!(
            (28..=36).contains(&interval.as_millis()),
            "{interval:?} between two samples"
        );
    }

    #[test]
    fn without_a_budget_the_interval_stays() {
        let mut simulated = Simulated::new(None, 4_000_000);
        simulated.run(COSTLY, 60);
        assert_eq!(simulated.control.interval_ns(), 4_000_000);
    }

    #[test]
    fn a_process_that_is_almost_idle_keeps_its_interval() {
        let mut simulated = Simulated::new(Some(1), 4_000_000);
        let idle = Load {
            own_ns: IDLE_NS / 2,
            ..COSTLY
        };
        simulated.run(idle, 60);
        assert_eq!(simulated.control.interval_ns(), 4_000_000);
    }

    #[test]
    fn a_handler_without_a_processor_counts_for_a_bounded_time() {
        let mut control = OverheadControl::new(None, Duration::from_millis(4), 1000);
        control.count_handler(2); // 8 µs
        assert_eq!(control.take_handlers_ns(), 8_000);
        control.count_handler(u64::MAX);
        assert_eq!(control.take_handlers_ns(), LONGEST_HANDLER_NS);
        assert_eq!(control.take_handlers_ns(), 0);
    }
}
