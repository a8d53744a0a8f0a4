//! Counts blocking calls that end with `EINTR`, per 10,000 calls, in processes that can read all,
//! some or none of the system's information about their threads.
//!
//! The promise is at most one in each of these setups. The group `sample` reports the calls of a
//! plain process once more, with the promise of its default session: none.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::interrupted::{HostSetup, play};

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

/// The number of calls of all kinds together in each scene.
const CALLS: u64 = 30_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// The figure of the default session, in a process that can read all information: no call ends with
/// `EINTR`, because a timer fires only while its thread runs.
pub(crate) fn measure_default(report: &mut Report) -> Result<()> {
    report.put(in_setup("sample.eintr_per_10000", "plain", None, 0.0)?);
    Ok(())
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    for (name, setup) in HostSetup::ALL {
        let figure = format!("host.eintr_per_10000.{name}");
        report.put(in_setup(&figure, name, setup.missing(), 1.0)?);
    }
    Ok(())
}

/// Measures a figure in this setup, of which at most `most` is promised. Leaves it out if the setup
/// is `missing` something.
fn in_setup(figure: &str, name: &str, missing: Option<String>, most: f64) -> Result<Figure> {
    let (calls, interrupted) = if missing.is_some() {
        (0, 0)
    } else {
        in_scene(name)?
    };
    let per_10_000 = interrupted as f64 * 1e4 / (calls.max(1) as f64);
    let few = (calls < 10_000).then(|| format!("only {calls} calls"));
    Ok(Figure::new(figure, per_10_000, "calls")
        .promised(Promise::AtMost(most))
        .unless(few)
        .or_left_out(missing))
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
