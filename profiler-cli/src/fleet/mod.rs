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
use asked::VersionArgs;
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
    /// Shows the functions of a fleet with the most processor time
    Top(VersionArgs),
    Diff(diff::DiffArgs),
    /// Shows the slowest performance groups of each host and version
    Groups(VersionArgs),
    /// Shows the kinds of spans with the most time
    ///
    /// The range of time selects spans by their end. A span may have begun up to a day before the
    /// range, and may have its start and its end in different batches.
    Spans(VersionArgs),
    /// Shows the spans that were open when their process ended
    ///
    /// The range of time selects processes by their end. A span may have begun up to a day before
    /// the range.
    OpenSpans(VersionArgs),
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
