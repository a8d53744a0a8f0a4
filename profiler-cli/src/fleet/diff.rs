//! `profiler fleet diff`: what changed between two releases.

use anyhow::Result;
use clap::Args;
use profiler_fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::RowsArgs;
use crate::console::tell;
use crate::plain::plain;

/// Compares the shares of processor time of functions in two releases
///
/// A share is the part of a release's processor time that was spent in a function: in itself, or in
/// itself and the functions that it calls. Both releases are taken from the same range of time.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    rows: RowsArgs,
    /// The version before the change
    #[arg(long, value_name = "VERSION")]
    before: String,
    /// The version after the change
    #[arg(long, value_name = "VERSION")]
    after: String,
}

#[derive(Debug, Deserialize, Serialize)]
struct ChangeRow {
    function: String,
    self_before: f64,
    self_after: f64,
    total_before: f64,
    total_after: f64,
    #[serde(deserialize_with = "count")]
    samples_before: u64,
    #[serde(deserialize_with = "count")]
    samples_after: u64,
}

pub(crate) fn run(options: &DiffArgs) -> Result<()> {
    let filter = options.rows.filter(None)?;
    let parameters = filter
        .parameters(u64::from(options.rows.top))
        .text("before", &options.before)
        .text("after", &options.after);
    let rows: Vec<ChangeRow> = options.rows.ask(FleetQuery::Diff, &parameters)?;
    let share = |part: f64| format!("{:.2}", 100.0 * part);
    let points = |before: f64, after: f64| format!("{:+.2}", 100.0 * (after - before));
    let cells = |row: &ChangeRow| {
        [
            share(row.self_before),
            share(row.self_after),
            points(row.self_before, row.self_after),
            share(row.total_before),
            share(row.total_after),
            points(row.total_before, row.total_after),
            row.samples_before.to_string(),
            row.samples_after.to_string(),
            row.function.clone(),
        ]
    };
    let heads = [
        "self %", "after", "change", "total %", "after", "change", "samples", "after", "function",
    ];
    options.rows.print("functions", &rows, heads, cells)?;
    if options.rows.json {
        return Ok(());
    }
    let has_none = |samples: fn(&ChangeRow) -> u64| rows.iter().all(|row| samples(row) == 0);
    for (version, has_none) in [
        (&options.before, has_none(|row| row.samples_before)),
        (&options.after, has_none(|row| row.samples_after)),
    ] {
        if has_none && !rows.is_empty() {
            tell(&format!(
                "profiler: no sample of version {} has one of these functions",
                plain(version)
            ));
        }
    }
    Ok(())
}
