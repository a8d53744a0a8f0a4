//! `profiler fleet open-spans`: the spans that were open when their process ended.

use anyhow::Result;
use profiler_fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::VersionArgs;

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

pub(super) fn run(options: &VersionArgs) -> Result<()> {
    let heads = ["host", "process", "thread", "open ms", "span"];
    let cells = |row: &OpenSpanRow| {
        let fields = row.keys.iter().zip(&row.values);
        let fields: String = fields
            .map(|(key, value)| format!("  {key}={value}"))
            .collect();
        [
            row.host.clone(),
            format!("{} {}", row.process_name, row.pid),
            row.span_thread.clone(),
            format!("{:.1}", row.open_ns as f64 / 1e6),
            format!("{}{fields}", row.span_name),
        ]
    };
    options.show(FleetQuery::OpenSpans, "open_spans", heads, cells)
}
