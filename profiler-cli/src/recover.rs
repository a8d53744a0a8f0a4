//! `profiler recover DIR [-o FILE]`: makes the profile of a dead session from its pools.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_parent::Format;

use crate::report::{Row, complain, print_table, say};

/// Writes the profile of a session whose parent has died, from its pool directory
///
/// Every process of the session is in it, up to the last entry that it committed, whether it is
/// dead or still runs, with a verdict that says so. What is damaged, or no pool of the session, is
/// named and passed over. Nothing in the directory is changed; remove it when it is not needed any
/// more.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The session's pool directory, or the directory that holds exactly one
    dir: PathBuf,
    /// Where the profile goes; compressed if the name ends in .gz [default: profile.json.gz, or
    /// profile-2.json.gz and so on if that is there]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How it is written down
    #[arg(long, value_enum, default_value_t = WrittenAs::Processed)]
    format: WrittenAs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WrittenAs {
    /// What the Firefox Profiler opens fastest
    Processed,
    /// As Firefox writes it: one object per process
    Gecko,
}

pub(crate) fn run(options: &RecoverArgs) -> Result<()> {
    let format = match options.format {
        WrittenAs::Processed => Format::Processed,
        WrittenAs::Gecko => Format::Gecko,
    };
    let output = options.output.clone().unwrap_or_else(crate::report::free_name);
    let recovery = profiler_parent::recover::recover(&options.dir, &output, format)?;
    complain(&recovery.passed_over);
    print_table(&recovery.processes.iter().map(Row::of_captured).collect::<Vec<_>>());
    say(&format!("\nwrote {} ({} bytes)", recovery.path.display(), recovery.bytes));
    Ok(())
}
