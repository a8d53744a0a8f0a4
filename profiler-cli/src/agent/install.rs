//! `profiler agent`: installs the library and the files for C, or prints the path of the library.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::{Agent, AgentError, FILE_NAME, LIBRARY};
use crate::console::say;

const HEADER: &str = profiler_agent_embed::header!();
const PKG_CONFIG: &str = profiler_agent_embed::pkg_config!();

/// Installs the library for C programs, or prints how to preload it
///
/// Without an option, prints the value that `profiler record` adds to LD_PRELOAD.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Writes lib/libprofiler_agent.so, include/profiler.h and lib/pkgconfig/profiler-agent.pc
    /// below this directory, and replaces older ones
    #[arg(long, value_name = "PREFIX")]
    install: Option<PathBuf>,
}

pub(crate) fn run(options: &AgentArgs) -> Result<()> {
    match &options.install {
        Some(prefix) => install(prefix),
        None => {
            say(&Agent::find()?.entry.to_string_lossy());
            Ok(())
        }
    }
}

fn install(prefix: &Path) -> Result<()> {
    if LIBRARY.is_empty() {
        return Err(AgentError::NotBuilt.into());
    }
    let prefix = std::path::absolute(prefix)?;
    let shown = prefix.to_str().context("the path is not UTF-8")?;
    let about = about(shown, env!("CARGO_PKG_VERSION"));
    let files = [
        (Path::new("lib").join(FILE_NAME), LIBRARY),
        (PathBuf::from("include/profiler.h"), HEADER.as_bytes()),
        (
            PathBuf::from("lib/pkgconfig/profiler-agent.pc"),
            about.as_bytes(),
        ),
    ];
    for (name, bytes) in files {
        let path = prefix.join(name);
        write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        say(&path.to_string_lossy());
    }
    Ok(())
}

/// The file for pkg-config. It divides what it prints at spaces, unless they are quoted.
fn about(prefix: &str, version: &str) -> String {
    let quoted = |character: char| match character {
        ' ' | '"' | '\'' | '\\' | '#' => format!("\\{character}"),
        other => other.to_string(),
    };
    let prefix: String = prefix.chars().map(quoted).collect();
    PKG_CONFIG
        .replace("@version@", version)
        .replace("@prefix@", &prefix)
}

/// Writes a file in place of an older one, which running programs may still use. A program that
/// starts meanwhile finds the older file or the whole new one.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_library = path.extension().is_some_and(|end| end == "so");
    let mode = if is_library { 0o755 } else { 0o644 };
    super::place::write_whole(path, bytes, mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_for_pkg_config_has_all_its_places_filled() {
        let filled = about("/usr", "1");
        assert!(!filled.contains('@'));
        assert!(filled.contains("prefix=/usr\n"));
        assert!(about("/my files", "1").contains("prefix=/my\\ files\n"));
    }

    #[test]
    fn an_older_file_is_replaced_and_not_changed() {
        let prefix = tempfile::tempdir().unwrap();
        let path = prefix.path().join("lib/file");
        write(&path, b"old").unwrap();
        let held = fs::File::open(&path).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(io::read_to_string(held).unwrap(), "old");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
