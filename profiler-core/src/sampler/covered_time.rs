//! How much of a thread's life its samples stand for.
//!
//! Used by `wait_period`, which has one [`CoveredTime`] for each thread. A sample of a thread that
//! runs stands for the processor time since the sample before. The rest of the thread's life is in
//! its waits. Looks find a thread in each of its waits as often as the wait has a share in the
//! thread's life, so the wait that a look finds gets all time that no sample has yet:
//!
//! ```text
//! thread   ──wait A──┬runs┬──wait B──┬runs┬──wait A──┬runs┬──wait B──
//! looks    │ A                          │ B                       │ B goes on
//! samples                       ▲ 1 ms
//! weights  A: from the start of   B: from the first look to the
//!          the thread to the look    second, without the 1 ms
//! ```
//!
//! Time in which a thread is ready to run, and other threads have its processor, is not a wait. It
//! belongs to the next sample of the thread while it runs.
//!
//! Invariant: at each wait that is recorded, all samples of the thread together stand for its life
//! up to then, within two ticks. Ticks are whole numbers, and a sample has at least one: what is too
//! little or too much is made up for by later waits.

use crate::time::Timestamp;

/// The part of a thread's life that its samples stand for. All times are in units of timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoveredTime {
    /// When the thread was first seen. `None` before that.
    from: Option<Timestamp>,
    /// The sum of all samples' ticks.
    covered: u64,
    /// How long the thread was ready to run and did not, since its last sample.
    delayed: u64,
    /// The processor time that is not in whole ticks yet; negative if the ticks are ahead of it.
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

    /// Notes that the thread was there at this time.
    pub(super) fn begin(&mut self, at: Timestamp) {
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
    }

    /// A thread of which nothing before this time is to be recorded.
    pub(super) const fn since(at: Timestamp) -> Self {
        Self {
            from: Some(at),
            ..Self::NONE
        }
    }

    /// Notes how long the thread was ready to run and did not.
    pub(super) const fn delay(&mut self, time: u64) {
        self.delayed = self.delayed.saturating_add(time);
    }

    /// The ticks of a sample of the thread while it runs, with this processor time, of which there is
    /// at least one. The sample is taken `at` this time. Counts them.
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

    /// The ticks of a wait up to `until` that no sample has yet. `unsampled` is processor time that
    /// a later sample will have. Counts them.
    pub(super) fn wait(&mut self, until: Timestamp, unsampled: u64, tick: u64) -> u64 {
        let tick = tick.max(1);
        let later = unsampled.saturating_add(self.delayed);
        let ticks = self.uncovered(until).saturating_sub(later) / tick;
        self.count(until, ticks, tick);
        ticks
    }

    /// When a wait began that a look has found at this time, if the thread has used its unsampled
    /// processor time before: after the last sample.
    pub(super) fn begin_of_wait(&self, found: Timestamp, unsampled: u64) -> Timestamp {
        let known = self.from.map_or(found, |from| from.max(self.last));
        let ran = unsampled.saturating_add(self.delayed);
        Timestamp::from_raw(known.raw().saturating_add(ran)).min(found)
    }

    /// Whether the samples stand for all time up to `found` but for a part of a tick. Then a sample
    /// of a wait is left to a later look, because it has at least one tick.
    pub(super) fn is_complete(&self, found: Timestamp, tick: u64) -> bool {
        self.covered > 0 && self.uncovered(found) < tick
    }

    /// The ticks of the first sample of a wait, which has at least one.
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
    fn time_without_a_processor_belongs_to_the_next_sample_that_runs() {
        let mut time = CoveredTime::NONE;
        time.begin(at(0));
        time.delay(300);
        assert_eq!(time.wait(at(400), 0, TICK), 10);
        assert_eq!(time.run(at(500), 50, TICK), 35);
        assert_eq!(time.wait(at(500), 0, TICK), 5);
    }

    #[test]
    fn a_pause_is_in_no_wait() {
        let mut time = CoveredTime::since(at(5000));
        assert_eq!(time.wait(at(5100), 0, TICK), 10);
    }

    #[test]
    fn samples_of_parts_of_a_tick_add_up_to_the_processor_time() {
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
                prop_assert!(covered <= now + 3 * TICK, "{ticks} ticks of {now}");
                if kind > 1 {
                    prop_assert!(now <= covered + 2 * TICK, "{ticks} ticks of {now}");
                }
            }
        }
    }
}
