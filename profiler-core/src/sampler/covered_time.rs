//! How much of a thread's life its samples stand for.
//!
//! Used by `wait_period`, which has one [`CoveredTime`] for each thread. A sample of a thread that
//! runs stands for the processor time since the sample before. The rest of the thread's lifetime is
//! in its waits. The probability that a look finds a thread in a wait is the wait's share of the
//! thread's lifetime. Each of the waits that two successive looks find therefore gets half of the
//! time between these looks. If a sample was taken in between, the second wait gets all of that
//! time, except the time of the sample:
//!
//! ```text
//! thread   ──wait A──┬runs┬──wait B──┬runs┬──wait A──┬runs┬──wait B──
//! looks    │ A                    │ B              │ A              │ B
//! samples                                                ▲ 1 ms
//! weights  │ A ─────── │ B ────────────── │ A ──── │ 1 │ B ─────────
//! ```
//!
//! The thread decides when it has a sample, for example after one of its waits. Therefore the waits
//! must not share the time at the sample. The wait of a thread that was seen not to run for a while
//! is an exception: it has lasted until the thread ran.
//!
//! Run delay is the time in which a thread is ready to run but has no processor. The delay of a
//! thread that has lost its processor is in the thread's next sample that is taken while the thread
//! runs. The delay after a wait is a part of that wait (`run_delay`).
//!
//! Invariant: at each wait that is recorded, all samples of the thread together stand for its life
//! up to then, within two ticks, or within [`MAX_SURPLUS`] and one tick beyond its life. Ticks are
//! whole numbers, and a sample has at least one: later waits correct the rounding error.

use crate::time::Timestamp;

/// The number of ticks that samples may have beyond the life of their thread before one more wait
/// is recorded, so that waits which are shorter than a tick are recorded. Later waits correct it.
const MAX_SURPLUS: u64 = 3;
/// This surplus is at most the thread's life divided by this number.
const LIFE_PER_SURPLUS: u64 = 100;

/// Converts nanoseconds to units of timestamps. The interval of the session is `tick` of these units,
/// and `interval_ns` nanoseconds.
pub(super) fn time_of_ns(ns: u64, tick: u64, interval_ns: u64) -> u64 {
    let time = u128::from(ns) * u128::from(tick) / u128::from(interval_ns.max(1));
    u64::try_from(time).unwrap_or(u64::MAX)
}

/// The part of a thread's life that its samples stand for. All times are in units of timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoveredTime {
    /// When the thread was first seen. `None` before that.
    from: Option<Timestamp>,
    /// The sum of all samples' ticks.
    covered: u64,
    /// The run delay of the thread since its last sample.
    delayed: u64,
    /// The time of running samples that is not counted in ticks yet; negative if more was counted.
    rest: i64,
    /// The time of the last sample.
    last: Timestamp,
}

impl CoveredTime {
    /// A thread that was not seen yet.
    pub(super) const NONE: Self = Self {
        from: None,
        covered: 0,
        delayed: 0,
        rest: 0,
        last: Timestamp::ZERO,
    };

    /// Notes that the thread existed at this time.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
    }

    /// The state of a thread whose recording begins at this time.
    pub(super) const fn since(at: Timestamp) -> Self {
        Self {
            from: Some(at),
            ..Self::NONE
        }
    }

    /// Notes a run delay of the thread.
    pub(super) const fn delay(&mut self, time: u64) {
        self.delayed = self.delayed.saturating_add(time);
    }

    /// The run delay of the thread since its last sample.
    pub(super) const fn delayed(&self) -> u64 {
        self.delayed
    }

    /// Counts a sample that is taken `at` this time while the thread runs, with the processor time
    /// `used`. Returns its number of ticks, at least 1.
    pub(super) fn run(&mut self, at: Timestamp, used: u64, tick: u64) -> u64 {
        let tick = tick.max(1);
        self.begin(Timestamp::from_raw(at.raw().saturating_sub(used)));
        let free = self.uncovered(at).saturating_sub(used);
        let ready = std::mem::take(&mut self.delayed).min(free);
        let time = self
            .rest
            .saturating_add_unsigned(used.saturating_add(ready));
        let ticks = u64::try_from(time).unwrap_or(0).saturating_add(tick / 2) / tick;
        let ticks = ticks.max(1);
        let rest = time.saturating_sub_unsigned(ticks.saturating_mul(tick));
        self.rest = rest.max(0_i64.saturating_sub_unsigned(tick));
        self.count(at, ticks, tick);
        ticks
    }

    /// Counts the ticks up to `until` that no sample has yet, and returns their number. `unsampled` is
    /// processor time that a later sample will have.
    pub(super) fn wait(&mut self, until: Timestamp, unsampled: u64, tick: u64) -> u64 {
        let tick = tick.max(1);
        let later = unsampled.saturating_add(self.delayed);
        let ticks = self.uncovered(until).saturating_sub(later) / tick;
        self.count(until, ticks, tick);
        ticks
    }

    /// The earliest start of a wait that a look finds at `found`: the time of the last sample, plus
    /// the thread's processor time and run delay since then.
    pub(super) fn begin_of_wait(&self, found: Timestamp, unsampled: u64) -> Timestamp {
        let known = self.from.map_or(found, |from| from.max(self.last));
        let ran = unsampled.saturating_add(self.delayed);
        Timestamp::from_raw(known.raw().saturating_add(ran)).min(found)
    }

    /// Whether samples stand for more than the time up to `found`, by the allowed surplus. Then no
    /// wait is recorded, because it would add at least one tick.
    ///
    /// Many waits are found by a single look, and last less than a tick. If they needed a whole
    /// tick of time that is in no sample, longer waits would get their time.
    pub(super) fn is_complete(&self, found: Timestamp, tick: u64) -> bool {
        let from = self.from.unwrap_or(found);
        let lived = found.raw().saturating_sub(from.raw());
        let surplus = (lived / LIFE_PER_SURPLUS).min(tick.saturating_mul(MAX_SURPLUS));
        self.covered > lived.saturating_add(surplus)
    }

    /// Whether processor time and run delay explain the time up to `until`, except for less than a
    /// tick. Then no wait can be recorded, so the thread's state is not read. `unsampled` is
    /// processor time that a later sample will have.
    pub(super) fn has_only_run(&self, until: Timestamp, unsampled: u64, tick: u64) -> bool {
        let ran = unsampled.saturating_add(self.delayed);
        self.from.is_some() && self.uncovered(until).saturating_sub(ran) < tick
    }

    /// Counts the first sample of a wait. Returns its number of ticks, at least 1.
    pub(super) fn begin_wait(&mut self, at: Timestamp, unsampled: u64, tick: u64) -> u64 {
        self.begin(at);
        match self.wait(at, unsampled, tick) {
            0 => {
                self.count(at, 1, tick.max(1));
                1
            }
            ticks => ticks,
        }
    }

    fn uncovered(&self, until: Timestamp) -> u64 {
        let from = self.from.unwrap_or(until);
        let lived = until.raw().saturating_sub(from.raw());
        lived.saturating_sub(self.covered)
    }

    fn count(&mut self, at: Timestamp, ticks: u64, tick: u64) {
        self.covered = self.covered.saturating_add(ticks.saturating_mul(tick));
        self.last = self.last.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TICK: u64 = 10;

    fn at(raw: u64) -> Timestamp {
        Timestamp::from_raw(raw)
    }

    #[test]
    fn a_wait_that_a_look_finds_gets_the_time_since_the_last_look() {
        let mut time = CoveredTime::NONE;
        assert_eq!(time.begin_wait(at(1000), 0, TICK), 1, "the thread is new");
        assert_eq!(
            time.begin_wait(at(1410), 0, TICK),
            40,
            "one tick was too much"
        );
        assert_eq!(time.run(at(1500), 20, TICK), 2);
        assert_eq!(time.begin_wait(at(1800), 0, TICK), 37);
    }

    #[test]
    fn run_delay_is_in_the_next_sample_of_the_running_thread() {
        let mut time = CoveredTime::NONE;
        time.begin(at(0));
        time.delay(300);
        assert_eq!(time.wait(at(400), 0, TICK), 10);
        assert_eq!(time.run(at(500), 50, TICK), 35);
        assert_eq!(time.wait(at(500), 0, TICK), 5);
    }

    #[test]
    fn a_thread_whose_life_is_processor_time_and_run_delay_has_only_run() {
        let mut time = CoveredTime::NONE;
        assert!(!time.has_only_run(at(100), 100, TICK), "the thread is new");
        time.begin(at(100));
        time.delay(30);
        assert!(time.has_only_run(at(150), 15, TICK));
        assert!(!time.has_only_run(at(150), 10, TICK), "ten may be a wait");
    }

    #[test]
    fn waits_that_one_look_finds_are_recorded_although_half_of_their_time_is_less_than_a_tick() {
        let mut time = CoveredTime::since(at(0));
        let mut covered = time.wait(at(100 * TICK), 0, TICK) * TICK;
        // Two waits in turn, which looks find that are 1.2 ticks apart.
        for found in (0..1000).map(|look| 100 * TICK + look * 12) {
            covered += time.wait(at(found.saturating_sub(6)), 0, TICK) * TICK;
            assert!(!time.is_complete(at(found), TICK), "{covered} of {found}");
            covered += time.begin_wait(at(found), 0, TICK) * TICK;
            assert!(covered <= found + 2 * TICK, "{covered} of {found}");
        }
        let first = |lived| {
            let mut time = CoveredTime::since(at(0));
            time.wait(at(lived), 0, TICK);
            let mut begins = || {
                let is_complete = time.is_complete(at(lived), TICK);
                (!is_complete).then(|| time.begin_wait(at(lived), 0, TICK))
            };
            (0..10).map_while(|_| begins()).sum::<u64>()
        };
        assert_eq!([first(1_000), first(100_000)], [2, 4], "ticks in advance");
    }

    #[test]
    fn a_pause_is_in_no_wait() {
        let mut time = CoveredTime::since(at(5000));
        assert_eq!(time.wait(at(5100), 0, TICK), 10);
    }

    #[test]
    fn rounded_ticks_add_up_to_the_processor_time() {
        let mut time = CoveredTime::NONE;
        let ticks: u64 = (1..=100).map(|n| time.run(at(n * 13), 13, TICK)).sum();
        assert_eq!(ticks, 130);
    }

    #[test]
    fn a_wait_begins_after_the_last_sample_and_before_the_look_that_finds_it() {
        let mut time = CoveredTime::NONE;
        assert_eq!(time.begin_of_wait(at(70), 0), at(70), "the thread is new");
        time.begin(at(100));
        assert_eq!(time.begin_of_wait(at(500), 0), at(100));
        time.run(at(300), 40, TICK);
        assert_eq!(time.begin_of_wait(at(500), 20), at(320));
        assert_eq!(time.begin_of_wait(at(310), 20), at(310));
    }

    proptest! {
        /// Threads run, wait, are delayed and are looked at in any order. Samples while they run are
        /// at least a tick of processor time apart.
        #[test]
        fn samples_stand_for_the_whole_life_at_each_wait(
            steps in prop::collection::vec((0_u8..3, 0_u64..1000, TICK..200, 0_u64..50), 1..200),
        ) {
            let mut time = CoveredTime::NONE;
            time.begin(at(0));
            let (mut now, mut ticks) = (0, 0);
            for (kind, pause, used, delayed) in steps {
                now += pause + used + delayed;
                match kind {
                    0 => {
                        time.delay(delayed);
                        ticks += time.run(at(now), used, TICK);
                    }
                    1 if !time.is_complete(at(now), TICK) => {
                        let begun = time.begin_of_wait(at(now), used);
                        ticks += time.begin_wait(begun, used, TICK);
                        // The rest of the wait, up to the look; the thread has run before it.
                        ticks += time.wait(at(now), used, TICK);
                    }
                    _ => ticks += time.wait(at(now), 0, TICK),
                }
                let covered = ticks * TICK;
                prop_assert!(covered <= now + (MAX_SURPLUS + 3) * TICK, "{ticks} ticks of {now}");
                if kind > 1 {
                    prop_assert!(now <= covered + 2 * TICK, "{ticks} ticks of {now}");
                }
            }
        }
    }
}
