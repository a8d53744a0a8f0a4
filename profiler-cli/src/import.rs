//! `profiler import FILE.cpuprofile [-o OUT]`: another tool's profile as one of ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use profiler_parent::export::import_cpuprofile;

use crate::export::beside;
use crate::report::say;

/// Makes a profile of a .cpuprofile file, such as `node --cpu-prof` writes
///
/// It opens in the Firefox Profiler with the times that the file has, and `profiler info`, `view`
/// and `export` take it.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A .cpuprofile file, compressed or not
    file: PathBuf,
    /// Where the profile goes; compressed if the name ends in .gz (default: beside the file, as .json.gz)
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &ImportArgs) -> Result<()> {
    let output = options.output.clone().unwrap_or_else(|| beside(&options.file, ".json.gz"));
    let imported = import_cpuprofile(&options.file, &output)?;
    say(&format!("{} samples", imported.samples));
    say(&format!("wrote {} ({} bytes)", imported.path.display(), imported.bytes));
    Ok(())
}
