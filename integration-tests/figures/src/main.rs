//! Measures the promised figures, prints one per line, and compares each with its promise.
//!
//! ```text
//! cargo run --release -p figures -- record limit gather
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! Exit code 0: every promise was kept. 1: a promise was missed, or a figure could not be measured;
//! stderr names it. 2: invalid arguments. A group is one module with a function that takes the
//! [`Report`], and one row in [`GROUPS`].

mod agent;
mod always_on;
mod diff;
mod export;
mod export_sums;
mod faults;
mod fleet;
mod flood;
mod gather;
mod groups;
mod host;
mod join;
mod json;
mod known_waits;
mod limit;
mod live;
mod live_flame;
mod merge;
mod observe;
mod open;
mod prometheus;
mod push;
mod record;
mod recording;
mod recover;
mod roles;
mod sample;
mod symbols;
mod workers;

use std::process::ExitCode;

use integration_tests::figure::Report;

/// Measures and reports the figures of one group.
type Group = fn(&mut Report) -> anyhow::Result<()>;

/// All groups, in the order of the usage line.
const GROUPS: &[(&str, Group)] = &[
    ("record", record::measure),
    ("limit", limit::measure),
    ("flood", flood::measure),
    ("gather", measure_gathering),
    ("json", json::measure),
    ("faults", measure_faults),
    ("recover", recover::measure),
    ("symbols", symbols::measure),
    ("sample", sample::measure),
    ("truth", sample::measure_truth),
    ("idle", sample::measure_idle),
    ("waits", sample::measure_waits),
    ("known_waits", known_waits::measure),
    ("always_on", always_on::measure),
    ("open", open::measure),
    ("groups", groups::measure),
    ("observers", observe::measure),
    ("export", export::measure),
    ("export_sums", export_sums::measure),
    ("fleet", fleet::measure),
    ("diff", diff::measure),
    ("merge", merge::measure),
    ("live", live::measure),
    ("prometheus", prometheus::measure),
    ("push", push::measure),
    ("host", host::measure),
    ("join", join::measure),
    ("agent", agent::measure),
];

#[global_allocator]
static ALLOCATOR: integration_tests::counting::CountingAllocator =
    integration_tests::counting::CountingAllocator;

/// Gathering includes the writing of JSON, which is also the separate group `json`.
fn measure_gathering(report: &mut Report) -> anyhow::Result<()> {
    json::measure(report)?;
    gather::measure(report)
}

/// Faults of children and of the parent. Recovery is also the separate group `recover`.
fn measure_faults(report: &mut Report) -> anyhow::Result<()> {
    recover::measure(report)?;
    faults::measure(report)
}

fn main() -> ExitCode {
    if let Some(code) = roles::run_if_asked().or_else(workers::run_as_child) {
        return code;
    }
    let names: Vec<String> = std::env::args().skip(1).collect();
    let Some(groups) = groups_named(&names) else {
        let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: figures GROUP...\nknown groups: {}", known.join(" "));
        return ExitCode::from(2);
    };
    let mut report = Report::default();
    for (name, group) in groups {
        if let Err(error) = group(&mut report) {
            report.failed(name, &error);
        }
    }
    if report.conclude() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The groups with these names; `None` if there is no name or one is unknown.
fn groups_named(names: &[String]) -> Option<Vec<(&'static str, Group)>> {
    let find = |name: &String| GROUPS.iter().find(|(known, _)| known == name).copied();
    if names.is_empty() {
        None
    } else {
        names.iter().map(find).collect()
    }
}
