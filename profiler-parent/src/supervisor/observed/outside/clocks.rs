//! The processor time of a thread at each of its samples.
//!
//! Used for processes that are observed from outside. A sample of the system has no processor time,
//! but the thread's clock can be read later. Two samples are at least one interval of processor
//! time apart. The rest of the time that the clock shows is divided among the longer gaps between
//! samples, because the system may take no samples while it works for the thread, or may have lost
//! some. Pure.
//!
//! Invariants: the times rise; none exceeds the time that the clock shows.

/// What is known of a thread at its last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownTime {
    /// Its processor time, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// The time of that sample, on the clock of the samples. `None` before the first sample.
    pub(super) at_ns: Option<u64>,
}

impl KnownTime {
    /// Passes the processor time at each of these samples, which are in order of time, to `each`.
    /// `now_cpu_ns` is the thread's clock after the last one, if it could be read.
    pub(super) fn advance(
        &mut self,
        samples: &[u64],
        now_cpu_ns: Option<u64>,
        interval_ns: u64,
        mut each: impl FnMut(u64),
    ) {
        let count = u64::try_from(samples.len()).unwrap_or(u64::MAX);
        if count == 0 {
            return;
        }
        let sampled = count.saturating_mul(interval_ns);
        let used = now_cpu_ns.map_or(sampled, |now| now.saturating_sub(self.cpu_ns));
        let step = interval_ns.min(used / count);
        // Less than an interval may have passed since the last sample.
        let more = used.saturating_sub(sampled);
        let more = if more < interval_ns { 0 } else { more };
        let mut gaps = Vec::with_capacity(samples.len());
        let mut last = self.at_ns;
        for at in samples {
            let gap = last.map_or(interval_ns, |last| at.saturating_sub(last));
            gaps.push(gap.saturating_sub(interval_ns));
            last = Some(*at);
        }
        let all = gaps
            .iter()
            .fold(0, |all: u64, gap| all.saturating_add(*gap));
        for gap in gaps {
            let part = u128::from(more.min(all)) * u128::from(gap) / u128::from(all.max(1));
            let part = u64::try_from(part).unwrap_or(0);
            self.cpu_ns = self.cpu_ns.saturating_add(step).saturating_add(part);
            each(self.cpu_ns);
        }
        self.at_ns = last;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn times(known: &mut KnownTime, samples: &[u64], now: Option<u64>) -> Vec<u64> {
        let mut all = Vec::new();
        let samples: Vec<u64> = samples.iter().map(|ms| ms * MS).collect();
        known.advance(&samples, now.map(|ms| ms * MS), MS, |cpu| {
            all.push(cpu / MS)
        });
        all
    }

    #[test]
    fn a_thread_that_runs_without_a_pause_uses_an_interval_for_each_sample() {
        let mut known = KnownTime::default();
        assert_eq!(times(&mut known, &[11, 12, 13], Some(3)), [1, 2, 3]);
        assert_eq!(times(&mut known, &[14, 15], Some(5)), [4, 5]);
        assert_eq!(times(&mut known, &[20, 30], None), [6, 7], "it has ended");
    }

    #[test]
    fn time_without_samples_lies_between_samples_that_are_far_apart() {
        let mut known = KnownTime::default();
        times(&mut known, &[1], Some(1));
        // 6 ms in the system, between the second and the third sample.
        assert_eq!(times(&mut known, &[2, 9, 10], Some(10)), [2, 9, 10]);
        // The thread has waited most of the time.
        assert_eq!(times(&mut known, &[50, 51], Some(12)), [11, 12]);
    }

    #[test]
    fn a_clock_that_shows_less_than_the_samples_is_right() {
        let mut known = KnownTime::default();
        assert_eq!(times(&mut known, &[1, 2, 3, 4], Some(2)), [0, 1, 1, 2]);
    }

    proptest! {
        #[test]
        fn the_times_rise_and_never_exceed_the_clock(
            mut samples in prop::collection::vec(0..u64::MAX / 4, 0..40),
            now in 0..u64::MAX / 4,
            before in 0..u64::MAX / 4,
            at_ns: Option<u64>,
        ) {
            samples.sort_unstable();
            let mut known = KnownTime { cpu_ns: before, at_ns };
            let mut last = before;
            let mut all = Vec::new();
            known.advance(&samples, Some(now), MS, |cpu| all.push(cpu));
            prop_assert_eq!(all.len(), samples.len());
            for cpu in all {
                prop_assert!(cpu >= last && cpu <= now.max(before));
                last = cpu;
            }
        }
    }
}
