//! `profiler recover DIR [-o FILE]`: makes the profile of a dead session from its pools.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_parent::Format;
use profiler_parent::recover::PoolRecovery;

use crate::console::{complain, say};
use crate::output_name::OutputName;
use crate::process_row::Row;
use crate::process_table::print_table;
use crate::progress::{ProgressLine, with_progress};
use crate::signals::end_without_leftovers;

/// Writes the profile of a session whose parent has died, from its pool directory
///
/// The profile contains every process of the session, dead or still running, up to the last entry
/// that it committed, with a verdict that states its end. Files that are damaged or not pools of
/// the session are passed over, and reported. Nothing in the directory is changed; remove it when
/// it is no longer needed.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The session's pool directory, or a directory that contains exactly one
    dir: PathBuf,
    /// The profile to write; compressed if the name ends in .gz [default: profile.json.gz, or
    /// profile-2.json.gz and so on if that exists]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the profile
    #[arg(long, value_enum, default_value_t = WrittenAs::Processed)]
    format: WrittenAs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WrittenAs {
    /// The Firefox Profiler's own format, which opens fastest
    Processed,
    /// The format that Firefox writes: one object per process
    Gecko,
}

pub(crate) fn run(options: &RecoverArgs) -> Result<()> {
    let format = match options.format {
        WrittenAs::Processed => Format::Processed,
        WrittenAs::Gecko => Format::Gecko,
    };
    let output = OutputName::of_profile(options.output.as_deref(), "profile");
    let recovery = PoolRecovery::new(&options.dir).format(format);
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    let events = recovery.events();
    let (path, recovery) =
        output.write(|path| with_progress(&line, events, || recovery.save(path)))?;
    complain(&recovery.passed_over);
    print_table(
        &recovery
            .processes
            .iter()
            .map(Row::of_captured)
            .collect::<Vec<_>>(),
    );
    say(&format!(
        "\nwrote {} ({} bytes)",
        path.display(),
        recovery.bytes
    ));
    Ok(())
}
