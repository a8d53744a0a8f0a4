//! `profiler fleet top`: the functions with the most time of their own.

use anyhow::Result;
use clap::Args;
use profiler_parent::fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::{RowsArgs, print_json};
use super::table::{self, ms, percent};

/// Shows the functions of a fleet with the most processor time
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FunctionRow {
    function: String,
    #[serde(deserialize_with = "count")]
    self_cpu_us: u64,
    #[serde(deserialize_with = "count")]
    total_cpu_us: u64,
    #[serde(deserialize_with = "count")]
    self_wall_us: u64,
    #[serde(deserialize_with = "count")]
    total_wall_us: u64,
    #[serde(deserialize_with = "count")]
    in_samples: u64,
}

pub(crate) fn run(options: &TopArgs) -> Result<()> {
    let filter = options.rows.filter(options.version.as_deref())?;
    // The first row is the sum.
    let parameters = filter.parameters(u64::from(options.rows.top) + 1);
    let rows: Vec<FunctionRow> = options.rows.ask(FleetQuery::Top, &parameters)?;
    if options.rows.json {
        return print_json("functions", &rows);
    }
    let is_sum = |row: &&FunctionRow| row.function == "(all)";
    let all = rows.iter().find(is_sum).map_or(0, |row| row.total_cpu_us);
    let cells = |row: &FunctionRow| {
        vec![
            ms(row.self_cpu_us),
            percent(row.self_cpu_us, all),
            ms(row.total_cpu_us),
            percent(row.total_cpu_us, all),
            row.in_samples.to_string(),
            row.function.clone(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table::print(
        &["self ms", "%", "total ms", "%", "samples", "function"],
        &rows,
    );
    Ok(())
}
