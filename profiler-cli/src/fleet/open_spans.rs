//! `profiler fleet open-spans`: the spans that were open when their process ended.

use anyhow::Result;
use clap::Args;
use profiler_parent::fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::{RowsArgs, print_json};
use super::table;

/// Shows the spans that were open when their process ended
///
/// The range of time selects processes by their end. A span may have begun up to a day before the
/// range.
#[derive(Debug, Args)]
pub(crate) struct OpenSpansArgs {
    #[command(flatten)]
    rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct OpenSpanRow {
    host: String,
    process_name: String,
    pid: String,
    #[serde(deserialize_with = "count")]
    died_ns: u64,
    last_verdict: String,
    span_name: String,
    span_thread: String,
    #[serde(deserialize_with = "count")]
    started_ns: u64,
    #[serde(deserialize_with = "count")]
    open_ns: u64,
    keys: Vec<String>,
    values: Vec<String>,
}

pub(crate) fn run(options: &OpenSpansArgs) -> Result<()> {
    let filter = options.rows.filter(options.version.as_deref())?;
    let parameters = filter.parameters(u64::from(options.rows.top));
    let rows: Vec<OpenSpanRow> = options.rows.ask(FleetQuery::OpenSpans, &parameters)?;
    if options.rows.json {
        return print_json("open_spans", &rows);
    }
    let cells = |row: &OpenSpanRow| {
        let fields = row.keys.iter().zip(&row.values);
        let fields: String = fields
            .map(|(key, value)| format!("  {key}={value}"))
            .collect();
        vec![
            row.host.clone(),
            format!("{} {}", row.process_name, row.pid),
            row.span_thread.clone(),
            format!("{:.1}", row.open_ns as f64 / 1e6),
            format!("{}{fields}", row.span_name),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table::print(&["host", "process", "thread", "open ms", "span"], &rows);
    Ok(())
}
