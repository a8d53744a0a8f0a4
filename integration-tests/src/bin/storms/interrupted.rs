//! Waiting calls, in a process about whose threads the system reports more or less: `storms
//! interrupted SECONDS SCENE`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::interrupted::{HostSetup, play};

/// Enough calls to see a share of one in 10,000.
const CALLS: u64 = 12_000;

/// Prints `left out` if the scene cannot be set here.
pub(crate) fn run(seconds: u64, scene: &str) -> Result<()> {
    let scene = HostSetup::named(scene).context("no such scene")?;
    if let Some(missing) = scene.missing() {
        println!("ok left out: {missing}");
        return Ok(());
    }
    let outcome = play(scene, CALLS, Duration::from_secs(seconds * 12))?;
    let (calls, interrupted, stats) = (outcome.calls(), outcome.interrupted(), outcome.stats);
    // At most one in 10,000; if there are fewer calls, at most one.
    ensure!(
        interrupted <= 1 + calls / 10_000,
        "{interrupted} of {calls} were interrupted: {:?}",
        outcome.kinds
    );
    ensure!(outcome.kinds.iter().all(|(_, calls, _)| *calls > 0), "not all waited: {:?}", outcome.kinds);
    ensure!(!scene.tells_who_runs() || stats.taken > 0, "nobody was asked: {stats:?}");
    ensure!(scene.tells_who_runs() || stats.hidden > 0, "processor time is not told: {stats:?}");
    println!("ok {interrupted} of {calls}, {stats:?}");
    Ok(())
}
