//! Counts the definitions of a library that is loaded repeatedly, at another address each time.
//!
//! Its first load is not counted. Two more are allowed, for libraries that the system loads into
//! the process during the run.

use std::process::Stdio;

use anyhow::Result;
use integration_tests::reloads::play;

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

const LOADS: usize = 1000;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let output = role("reloads")?.stderr(Stdio::inherit()).output()?;
    let printed = String::from_utf8(output.stdout)?;
    let numbers: Vec<u64> = printed
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [added, places, samples] = numbers[..] else {
        anyhow::bail!("the role ended with {}", output.status)
    };
    let few = (samples < LOADS as u64 / 2).then(|| format!("only {samples} samples"));
    let still = (places < 10).then(|| format!("the library was at {places} places only"));
    let figure = Figure::new(
        "host.definitions_after_reloads",
        added as f64,
        "definitions",
    );
    report.put(
        figure
            .promised(Promise::AtMost(2.0))
            .unless(few)
            .unless(still),
    );
    Ok(())
}

/// `reloads`: prints definitions added, addresses of the library, samples.
pub(super) fn play_reloads(_: &[String]) -> Result<()> {
    let reloads = play(LOADS)?;
    println!("{} {} {}", reloads.added, reloads.places, reloads.samples);
    Ok(())
}
