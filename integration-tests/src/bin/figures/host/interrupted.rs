//! Counts blocking calls that end with `EINTR`, per 10,000 calls, in processes that can read all,
//! some or none of the system's information about their threads.
//!
//! The promise is at most one in each of these setups.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::interrupted::{HostSetup, play};

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

/// The number of calls of all kinds together in each scene.
const CALLS: u64 = 30_000;
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn measure(report: &mut Report) -> Result<()> {
    for (name, scene) in HostSetup::ALL {
        let missing = scene.missing();
        let (calls, interrupted) = if missing.is_some() {
            (0, 0)
        } else {
            in_scene(name)?
        };
        let per_10_000 = interrupted as f64 * 1e4 / (calls.max(1) as f64);
        let few = (calls < 10_000).then(|| format!("only {calls} calls"));
        let figure = Figure::new(format!("host.eintr_per_10000.{name}"), per_10_000, "calls");
        report.put(
            figure
                .promised(Promise::AtMost(1.0))
                .unless(few)
                .or_left_out(missing),
        );
    }
    Ok(())
}

/// Counts all calls and the interrupted calls of a scene, in a separate process.
fn in_scene(name: &str) -> Result<(u64, u64)> {
    let output = role("interrupted")?
        .arg(name)
        .stderr(Stdio::inherit())
        .output()?;
    let printed = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = printed
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [calls, interrupted] = numbers[..] else {
        anyhow::bail!("{name} ended with {}", output.status)
    };
    Ok((calls, interrupted))
}

/// `interrupted SCENE`: prints the calls and how many were interrupted.
pub(super) fn play_scene(words: &[String]) -> Result<()> {
    let name = words.first().context("which scene?")?;
    let outcome = play(
        HostSetup::named(name).context("no such scene")?,
        CALLS,
        PATIENCE,
    )?;
    if std::env::var_os("FIGURES_VERBOSE").is_some() {
        eprintln!("{name}: {:?} {:?}", outcome.kinds, outcome.stats);
    }
    println!("{} {}", outcome.calls(), outcome.interrupted());
    Ok(())
}
