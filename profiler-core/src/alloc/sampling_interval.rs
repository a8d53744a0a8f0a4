//! Selects the allocations to sample: a Bernoulli trial per byte, drawn as the gap to the next
//! successful byte.
//!
//! Called at every allocation while allocations are sampled. An allocation is sampled if one of its
//! bytes succeeds, so with probability `1 - (1 - p)^size`. The gaps are geometric, which costs one
//! logarithm per sample and a subtraction per allocation. Trials have no memory: the remaining
//! bytes of a sampled allocation need no trial, and a thread may begin with a fresh gap.
//!
//! A sample stands for `size / (1 - (1 - p)^size)` bytes: a small allocation for about the mean
//! gap, a large one for its own size. So the sum over all samples is an unbiased estimate of all
//! bytes, for small and large sizes.

use std::cell::Cell;

use crate::sync::fixed::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// The sampling settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    /// Mean gap in bytes.
    every: u32,
    /// 0: a different seed for every run.
    seed: u64,
}

impl Sampling {
    pub(super) const DEFAULT: Self = Self {
        every: 64 * 1024,
        seed: 0,
    };

    pub(super) const fn every(self, bytes: u32) -> Self {
        Self {
            every: if bytes == 0 { 1 } else { bytes },
            ..self
        }
    }

    pub(super) const fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The next byte that succeeds, counted from 1; 0: not drawn yet. Constant initial values and
    /// no destructor, so both can be used at any point of a thread's life.
    static GAP: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// Counts an allocation; returns the bytes it stands for if it is sampled.
#[inline]
pub(super) fn trial(size: u64, sampling: &Sampling) -> Option<u64> {
    let gap = GAP.get();
    if size < gap {
        GAP.set(gap - size);
        return None;
    }
    hit(size, gap, sampling)
}

#[cold]
fn hit(size: u64, gap: u64, sampling: &Sampling) -> Option<u64> {
    if gap == 0 {
        seed(sampling.seed);
        let first = draw(sampling.every);
        if size < first {
            GAP.set(first - size);
            return None;
        }
    }
    GAP.set(draw(sampling.every));
    Some(stands_for(size, sampling.every))
}

/// Seeds the thread's random numbers.
fn seed(given: u64) {
    let thread = THREADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let start = if given == 0 {
        Timestamp::now().raw()
    } else {
        given
    };
    RANDOM.set(mixed(start ^ mixed(thread)));
}

/// The next random number: a Weyl sequence, mixed.
fn random() -> u64 {
    let next = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(next);
    mixed(next)
}

/// Mixes every bit into all bits; distinct numbers stay distinct.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A geometric gap with this mean, at least 1.
#[allow(clippy::cast_precision_loss)] // 53 bits are drawn
fn draw(mean: u32) -> u64 {
    // In (0, 1]: its logarithm is finite.
    let uniform = ((random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    let failures = uniform.ln() / (-1.0 / f64::from(mean)).ln_1p();
    whole(failures).saturating_add(1)
}

/// The bytes that a sampled allocation of this size stands for.
#[allow(clippy::cast_precision_loss)] // an estimate
fn stands_for(size: u64, mean: u32) -> u64 {
    let all_fail = size as f64 * (-1.0 / f64::from(mean)).ln_1p();
    whole((size as f64 / -all_fail.exp_m1()).round()).max(size)
}

/// The integer part; NaN counts as 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use test_support::threads::on_thread;

    use super::*;

    /// Runs `body` on a new thread whose random numbers begin with this seed.
    fn with_seed<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
        let body = move || {
            RANDOM.set(seed);
            body()
        };
        on_thread(body)
    }

    #[test]
    fn gaps_are_geometric() {
        let gaps: Vec<u64> = with_seed(7, || (0..100_000).map(|_| draw(1000)).collect());
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((980.0..1020.0).contains(&mean), "mean {mean}");
        // In a geometric distribution 1/e exceeds the mean, and 1/e² twice the mean.
        let beyond =
            |limit| gaps.iter().filter(|gap| **gap > limit).count() as f64 / gaps.len() as f64;
        assert!((beyond(1000) - 0.3677).abs() < 0.01, "{}", beyond(1000));
        assert!((beyond(2000) - 0.1352).abs() < 0.01, "{}", beyond(2000));
        assert!(gaps.iter().all(|gap| *gap >= 1));
    }

    #[test]
    fn samples_add_up_to_all_bytes_for_small_and_large_allocations() {
        for (size, count) in [
            (1, 3_000_000),
            (24, 1_000_000),
            (1000, 100_000),
            (20_000, 20_000),
        ] {
            let sampling = Sampling::DEFAULT.every(4096).seeded(11);
            let sum: u64 = with_seed(size, move || {
                (0..count).filter_map(|_| trial(size, &sampling)).sum()
            });
            let estimate = sum as f64;
            let truth = (size * count) as f64;
            // Four standard deviations: about truth · 4 / sqrt(samples).
            let samples = truth / f64::from(4096).max(size as f64);
            let bound = 4.0 / samples.sqrt();
            assert!(
                (estimate / truth - 1.0).abs() < bound,
                "size {size}: {estimate} for {truth}, bound {bound}"
            );
        }
    }

    #[test]
    fn with_a_mean_of_one_every_allocation_is_sampled_at_its_own_size() {
        let sampling = Sampling::DEFAULT.every(0);
        let all: Vec<_> = with_seed(1, move || {
            (1..100).map(|size| trial(size, &sampling)).collect()
        });
        assert_eq!(all, (1..100).map(Some).collect::<Vec<_>>());
    }
}
