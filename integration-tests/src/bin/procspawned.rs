//! Starts processes with the crate `procspawn`. Each joins the session of a test, records and ends.
//!
//! `procspawned COUNT` prints the status of the profiler in each of COUNT processes. Used by the
//! test `joining_spawners`.

use anyhow::{Context, Result, anyhow};
use integration_tests::marks::record_paced;
use integration_tests::patience::LONG;

/// Markers that each process records.
const MARKERS: u64 = 100;

fn main() -> Result<()> {
    procspawn::init(); // in a process that `procspawn` has started: calls `work`, and exits
    let count: u32 = std::env::args().nth(1).context("how many?")?.parse()?;
    let workers: Vec<_> = (0..count)
        .map(|_| procspawn::spawn(MARKERS, work))
        .collect();
    for worker in workers {
        let status = worker.join().map_err(|error| anyhow!("{error}"))?;
        println!("{status}");
    }
    Ok(())
}

/// Joins, records, and returns the status of the profiler.
fn work(markers: u64) -> String {
    let status = profiler_child::init_within(LONG);
    record_paced(1000, 0..markers);
    format!("{status:?}")
}
