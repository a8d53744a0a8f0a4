//! `profiler import FILE.cpuprofile [-o OUT]`: converts another tool's profile to one of ours.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use profiler_export::import_cpuprofile_with;

use crate::console::say;
use crate::output_name::beside;
use crate::progress::ProgressLine;
use crate::signals::end_without_leftovers;

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
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    let listener = line.listener(&options.file);
    let imported = import_cpuprofile_with(&options.file, &output, &listener);
    line.clear();
    let imported = imported?;
    for remark in &imported.remarks {
        say(&format!("note: {remark}"));
    }
    say(&format!("{} samples", imported.samples));
    say(&format!(
        "wrote {} ({} bytes)",
        imported.path.display(),
        imported.bytes
    ));
    Ok(())
}
