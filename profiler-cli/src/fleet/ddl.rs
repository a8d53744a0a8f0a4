//! `profiler fleet ddl`: the statements that create the tables.

use anyhow::Result;
use clap::Args;
use profiler_export::{Engine, FleetSchema};

use crate::console::say;

/// Prints the statements that create the tables of a store
///
/// `profiler fleet ddl | clickhouse-client -n` creates them. For a cluster, run it on every server;
/// `remote_servers` in the configuration of each server must define the cluster. All rows of a host
/// are then on one server.
#[derive(Debug, Args)]
pub(crate) struct DdlArgs {
    /// The database
    #[arg(long, value_name = "NAME", default_value = "profiler")]
    database: String,
    /// The cluster over which the rows are distributed [default: one server]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Days after which rows are deleted
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: u32,
    /// Omits the clauses that delete old rows, for ClickHouse 18.16 to 19.5
    #[arg(long)]
    without_ttl: bool,
}

pub(crate) fn run(options: &DdlArgs) -> Result<()> {
    let engine = match options.without_ttl {
        true => Engine::WithoutTtl,
        false => Engine::Current,
    };
    let schema = FleetSchema::new(&options.database)?.keep_days(options.keep_days, engine);
    let schema = match &options.cluster {
        Some(cluster) => schema.cluster(cluster)?,
        None => schema,
    };
    say(schema.to_string().trim_end());
    Ok(())
}
