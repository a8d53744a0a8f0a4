//! `profiler fleet top`: the functions with the most time of their own.

use anyhow::Result;
use profiler_fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::VersionArgs;
use super::table::{ms, percent};

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

pub(super) fn run(options: &VersionArgs) -> Result<()> {
    // The first row is the sum.
    let count = u64::from(options.rows.top) + 1;
    let parameters = options.filter()?.parameters(count);
    let rows: Vec<FunctionRow> = options.rows.ask(FleetQuery::Top, &parameters)?;
    let is_sum = |row: &&FunctionRow| row.function == "(all)";
    let all = rows.iter().find(is_sum).map_or(0, |row| row.total_cpu_us);
    let heads = ["self ms", "%", "total ms", "%", "samples", "function"];
    options.rows.print("functions", &rows, heads, |row| {
        [
            ms(row.self_cpu_us),
            percent(row.self_cpu_us, all),
            ms(row.total_cpu_us),
            percent(row.total_cpu_us, all),
            row.in_samples.to_string(),
            row.function.clone(),
        ]
    })
}
