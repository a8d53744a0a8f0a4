//! `profiler fleet …`: asks a ClickHouse that stores the profiles of many hosts.
//!
//! One module per query. `asked` has the options that all queries share, `table` prints rows.
//! Invariant: data of a store is untrusted, so it is printed only through [`crate::plain`].

mod asked;
mod ddl;
mod diff;
mod flame;
mod open_spans;
mod slow;
mod table;
mod top;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Asks a ClickHouse with the profiles of many hosts
///
/// `profiler fleet ddl` prints the statements that create its tables, and `profiler export --to
/// clickhouse` writes the rows of a profile. docs/fleet.md explains both, and links to the SQL of
/// the queries.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    query: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    Ddl(ddl::DdlArgs),
    Flame(flame::FlameArgs),
    Top(top::TopArgs),
    Diff(diff::DiffArgs),
    Groups(slow::GroupsArgs),
    Spans(slow::SpansArgs),
    OpenSpans(open_spans::OpenSpansArgs),
}

pub(crate) fn run(options: &FleetArgs) -> Result<()> {
    match &options.query {
        FleetCommand::Ddl(options) => ddl::run(options),
        FleetCommand::Flame(options) => flame::run(options),
        FleetCommand::Top(options) => top::run(options),
        FleetCommand::Diff(options) => diff::run(options),
        FleetCommand::Groups(options) => slow::run_groups(options),
        FleetCommand::Spans(options) => slow::run_spans(options),
        FleetCommand::OpenSpans(options) => open_spans::run(options),
    }
}
