//! `profiler fleet groups` and `profiler fleet spans`: the slowest performance groups and spans.

use anyhow::Result;
use clap::Args;
use profiler_parent::fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::{RowsArgs, print_json};
use super::table;

/// Shows the slowest performance groups of each host and version
#[derive(Debug, Args)]
pub(crate) struct GroupsArgs {
    #[command(flatten)]
    rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

/// Shows the kinds of spans with the most time
///
/// The range of time selects spans by their end. A span may have begun up to a day before the
/// range, and may have its start and its end in different batches.
#[derive(Debug, Args)]
pub(crate) struct SpansArgs {
    #[command(flatten)]
    rows: RowsArgs,
    /// Only this version of the services
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct GroupRow {
    host: String,
    version: String,
    group_name: String,
    #[serde(deserialize_with = "count")]
    all_runs: u64,
    #[serde(deserialize_with = "count")]
    all_time_ns: u64,
    ns_per_run: f64,
}

#[derive(Debug, Deserialize, Serialize)]
struct SpanRow {
    span_name: String,
    #[serde(deserialize_with = "count")]
    spans: u64,
    #[serde(deserialize_with = "count")]
    time_ns: u64,
    p99_ns: f64,
    #[serde(deserialize_with = "count")]
    longest_ns: u64,
}

fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

pub(super) fn run_groups(options: &GroupsArgs) -> Result<()> {
    let filter = options.rows.filter(options.version.as_deref())?;
    let parameters = filter.parameters(u64::from(options.rows.top));
    let rows: Vec<GroupRow> = options.rows.ask(FleetQuery::Groups, &parameters)?;
    if options.rows.json {
        return print_json("groups", &rows);
    }
    let cells = |row: &GroupRow| {
        vec![
            row.host.clone(),
            row.version.clone(),
            ms(row.ns_per_run),
            row.all_runs.to_string(),
            ms(row.all_time_ns as f64),
            row.group_name.clone(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table::print(
        &["host", "version", "ms per run", "runs", "ms", "group"],
        &rows,
    );
    Ok(())
}

pub(super) fn run_spans(options: &SpansArgs) -> Result<()> {
    let filter = options.rows.filter(options.version.as_deref())?;
    let parameters = filter.parameters(u64::from(options.rows.top));
    let rows: Vec<SpanRow> = options.rows.ask(FleetQuery::Spans, &parameters)?;
    if options.rows.json {
        return print_json("spans", &rows);
    }
    let cells = |row: &SpanRow| {
        vec![
            row.spans.to_string(),
            ms(row.time_ns as f64),
            ms(row.p99_ns),
            ms(row.longest_ns as f64),
            row.span_name.clone(),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table::print(&["spans", "ms", "p99 ms", "longest ms", "span"], &rows);
    Ok(())
}
