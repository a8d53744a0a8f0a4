//! What the viewer must show: the share of its process's samples that each function has, and the
//! file and lines of its code.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::{PROCESSES, work};

/// The smallest accepted part of the samples that a process would have at the default interval of 1
/// ms. Four processes may share two cores, a process that does not run is not sampled, and a kernel
/// with 250 ticks per second gives a quarter of the samples.
const LEAST_SAMPLED: f64 = 0.05;

pub(crate) fn process(number: usize) -> String {
    format!("shares {number}")
}

/// Writes `expect.json` for `shares.mjs`.
pub(crate) fn write(directory: &Path, time: Duration) -> Result<()> {
    let rust = |name: &str, share: u32, lines: (u32, u32)| {
        let name = format!("known_shares::work::{name}");
        json!({ "name": name, "self": share, "file": "known_shares/work.rs", "lines": [lines.0, lines.1] })
    };
    // Release builds here have line tables only. They name an inlined function without its path.
    let inlined = work::lines_of("fn inlined_loop(", 8);
    let functions = json!([
        { "name": "inlined_loop", "self": 50, "file": "known_shares/work.rs", "lines": [inlined.0, inlined.1] },
        rust("three_tenths", 30, work::lines_of("fn three_tenths(", 11)),
        { "name": "two_tenths", "self": 20, "file": "tenths.c", "lines": [2, 8] },
    ]);
    let callers = json!([
        { "name": "known_shares::work::five_tenths", "total": 50 },
        { "name": "known_shares::work::work", "total": 100 },
        { "name": "known_shares::main", "total": 100 },
    ]);
    let expect = json!({
        "processes": (0..PROCESSES).map(process).collect::<Vec<_>>(),
        "leastSamples": (time.as_secs_f64() * 1000.0 * LEAST_SAMPLED).floor(),
        "functions": functions,
        "callers": callers,
    });
    std::fs::write(
        directory.join("expect.json"),
        serde_json::to_string_pretty(&expect)?,
    )?;
    Ok(())
}
