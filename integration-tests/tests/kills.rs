//! Test of a thousand children that are killed at random moments: every committed entry is
//! delivered or counted.
//!
//! The scene is in `integration_tests::kills`; `.ci/kills` runs it longer.

use std::path::Path;

use integration_tests::kills::{self, rng::Rng};
use integration_tests::own_process;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kills");

#[test]
fn a_thousand_random_kills_lose_nothing_committed() -> anyhow::Result<()> {
    own_process!();
    let seed = Rng::seed();
    let tally = kills::run(Path::new(PROGRAM), 1000, seed, |_| {})?;
    println!("{tally:#?}");
    assert_eq!(tally.broken, 0, "seed {seed}: {:#?}", tally.complaints);
    assert_eq!(
        (tally.committed_lost, tally.torn, tally.duplicates),
        (0, 0, 0)
    );
    // Otherwise the kills did not hit the critical moments, and the test shows nothing.
    assert!(tally.kills >= 1000 && tally.inside_entry > 100, "{tally:?}");
    assert!(
        tally.before_first < 500 && tally.in_profiles > 5,
        "{tally:?}"
    );
    assert!(
        tally.delivered > 100_000 && tally.evicted > 100_000,
        "{tally:?}"
    );
    Ok(())
}
