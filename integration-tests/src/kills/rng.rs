//! Random numbers that a seed reproduces.
//!
//! Used by [`super::wave`] and by the soak.

use std::time::Duration;

/// A sequence of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns a new seed from the randomness of the system.
    pub fn seed() -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(std::process::id())
    }

    /// Returns the next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `most`.
    pub const fn below(&mut self, most: u64) -> u64 {
        self.draw() % most
    }

    /// Returns `true` with a probability of one in `times`.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a time below `most`, with a resolution of one nanosecond.
    pub const fn time_below(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos() as u64))
    }
}
