//! Kill tests: children that record numbered entries on several threads are killed at random
//! moments, and the entries that remain are compared with what the children reported.
//!
//! Used by the test `kills`, by `.ci/kills` (the program `kills`), by the figures and by the soak.
//! A kill involves everything that an application has: a session, its spawn, and the threads of the
//! child. The remaining entries are read by the reader that captures use and, for some of the
//! kills, also from a saved profile.
//!
//! [`entry`]: the entries; [`board`]: what a child reports; [`wild`]: the child; [`wave`]: the
//! children of one session, and their kills; [`found`]: what remains; [`judge`]: the rules;
//! [`rng`]: the random moments.

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

/// Number of children of one session.
pub const CHILDREN: u64 = 8;

/// Kills at least `count` children that run `program`, whose `main` must begin with
/// [`wild::run_if_asked`]. Calls `progress` after every wave.
///
/// # Errors
/// When a session or a child cannot be started. Violations of the rules are in the tally.
pub fn run(
    program: &Path,
    count: u64,
    seed: u64,
    mut progress: impl FnMut(&Tally),
) -> anyhow::Result<Tally> {
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
