//! `profiler fleet groups` and `profiler fleet spans`: the slowest performance groups and spans.

use anyhow::Result;
use profiler_fleet::{FleetQuery, count};
use serde::{Deserialize, Serialize};

use super::asked::VersionArgs;

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

pub(super) fn run_groups(options: &VersionArgs) -> Result<()> {
    let heads = ["host", "version", "ms per run", "runs", "ms", "group"];
    options.show(FleetQuery::Groups, "groups", heads, |row: &GroupRow| {
        [
            row.host.clone(),
            row.version.clone(),
            ms(row.ns_per_run),
            row.all_runs.to_string(),
            ms(row.all_time_ns as f64),
            row.group_name.clone(),
        ]
    })
}

pub(super) fn run_spans(options: &VersionArgs) -> Result<()> {
    let heads = ["spans", "ms", "p99 ms", "longest ms", "span"];
    options.show(FleetQuery::Spans, "spans", heads, |row: &SpanRow| {
        [
            row.spans.to_string(),
            ms(row.time_ns as f64),
            ms(row.p99_ns),
            ms(row.longest_ns as f64),
            row.span_name.clone(),
        ]
    })
}
