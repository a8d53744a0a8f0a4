//! The name of an output file that the user has not named.
//!
//! Used by the subcommands that write files.

use std::path::{Path, PathBuf};

/// The first name of `STEM.json.gz`, `STEM-2.json.gz` and so on that does not exist.
pub(crate) fn free_name(stem: &str) -> PathBuf {
    let names = (2..).map(|number| PathBuf::from(format!("{stem}-{number}.json.gz")));
    let first = PathBuf::from(format!("{stem}.json.gz"));
    let mut names = std::iter::once(first).chain(names);
    names
        .find(|name| name.symlink_metadata().is_err())
        .unwrap_or_default()
}

/// The name of a profile with another ending.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let name = file
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem
        .strip_suffix(".json")
        .or(stem.strip_suffix(".cpuprofile"))
        .unwrap_or(stem);
    file.with_file_name(format!("{stem}{ending}"))
}
