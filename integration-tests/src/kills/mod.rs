//! Kills: children that write numbered entries from several threads are killed at random moments, and
//! what they leave is held against what they said that they had recorded.
//!
//! Used by the test `kills`, by `.ci/kills` (the program `kills`), by the figures and by the soak. A kill
//! goes through all that an application has: a session, its spawn, the child's own threads. What
//! it leaves is read by the reader that captures use, and for a share of the kills also from
//! a saved profile.
//!
//! [`entry`]: the entries; [`board`]: what a child says; [`wild`]: the child; [`wave`]: some children
//! of one session, killed; [`found`]: what is left; [`judge`]: the law; [`rng`]: the moments.

pub mod board;
pub mod entry;
pub mod found;
pub mod judge;
pub mod rng;
pub mod wave;
pub mod wild;

use std::path::Path;

use judge::Tally;
use rng::Rng;
use wave::Wave;

/// Children of one session.
pub const CHILDREN: u64 = 8;

/// Kills at least so many children of `program`, which must begin with [`wild::run_if_asked`]. After every
/// wave `progress` is told how far it is.
///
/// # Errors
/// When a session or a child cannot be started. What breaks the law is in the tally.
pub fn run(program: &Path, count: u64, seed: u64, mut progress: impl FnMut(&Tally)) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for number in 0.. {
        if tally.kills >= count {
            break;
        }
        let wave = Wave::drawn(number, &mut Rng::new(seed.wrapping_add(number)));
        tally.add(wave.run(program)?);
        progress(&tally);
    }
    Ok(tally)
}
