//! Test of the table in `docs/prometheus.md`: it lists the metrics of a session, with their types.

use profiler_prometheus::session_metrics;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use integration_tests::own_process;
use profiler_prometheus::TextFormat;
use profiler_push::{PushDestination, PushOptions};

use crate::live_support::start;

/// The metrics of a text by name, with their types.
fn types(text: &str) -> BTreeMap<String, String> {
    let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let heads = heads.filter_map(|head| head.split_once(' '));
    heads
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

/// The rows of the table whose first cell is a name in the style of code.
fn rows(document: &str) -> BTreeMap<String, String> {
    let cells = document
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() == 6 && cells[1].starts_with("`profiler_"));
    rows.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned()))
        .collect()
}

#[test]
fn the_document_lists_all_metrics_with_their_types() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    // The metrics of pushers are there from the first pusher on. Nothing listens at the address.
    let destination = PushDestination::parse("otlp+http://127.0.0.1:9")?;
    let _pusher = profiler_push::Pusher::start(&session, &PushOptions::to(destination))?;
    let text = session_metrics(&session).text(TextFormat::Prometheus);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = fs::read_to_string(root.join("docs/prometheus.md"))?;
    assert_eq!(rows(&document), types(&text));
    Ok(())
}
