//! `profiler import FILE.cpuprofile [-o OUT]`: converts another tool's profile to one of ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use profiler_parent::export::import_cpuprofile;

use crate::export::beside;
use crate::report::say;

/// Converts a .cpuprofile file to a profile; `node --cpu-prof` writes such files
///
/// The profile opens in the Firefox Profiler with the times of the file. `profiler info`, `view`
/// and `export` accept it.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A .cpuprofile file, compressed or not
    file: PathBuf,
    /// The profile to write; compressed if the name ends in .gz [default: the file's name with the
    /// ending .json.gz]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &ImportArgs) -> Result<()> {
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| beside(&options.file, ".json.gz"));
    let imported = import_cpuprofile(&options.file, &output)?;
    say(&format!("{} samples", imported.samples));
    say(&format!(
        "wrote {} ({} bytes)",
        imported.path.display(),
        imported.bytes
    ));
    Ok(())
}
