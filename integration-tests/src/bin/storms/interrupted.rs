//! Blocking calls in a process about whose threads the system reports more or less: `storms
//! interrupted SECONDS SCENE`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::interrupted::{HostSetup, play};

/// The number of calls, which is enough to detect a share of one in 10,000.
const CALLS: u64 = 12_000;

/// Prints `left out` if this process cannot enter the scene.
pub(crate) fn run(seconds: u64, scene: &str) -> Result<()> {
    let scene = HostSetup::named(scene).context("no such scene")?;
    if let Some(missing) = scene.missing() {
        println!("ok left out: {missing}");
        return Ok(());
    }
    let outcome = play(scene, CALLS, Duration::from_secs(seconds * 12))?;
    let calls = outcome.calls();
    let interrupted = outcome.interrupted();
    let stats = outcome.stats;
    // At most one in 10,000; if there are fewer calls, at most one.
    ensure!(
        interrupted <= 1 + calls / 10_000,
        "{interrupted} of {calls} calls were interrupted: {:?}",
        outcome.kinds
    );
    ensure!(
        outcome.kinds.iter().all(|(_, calls, _)| *calls > 0),
        "a kind of call was never made: {:?}",
        outcome.kinds
    );
    ensure!(
        !scene.reports_running_threads() || stats.taken > 0,
        "no thread was signalled: {stats:?}"
    );
    ensure!(
        scene.reports_running_threads() || stats.hidden > 0,
        "the state of every thread was reported: {stats:?}"
    );
    println!("ok {interrupted} of {calls}, {stats:?}");
    Ok(())
}
