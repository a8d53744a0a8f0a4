//! The library for C and Python: `profiler agent` installs it, and `record` offers it to programs.
//!
//! The command contains the library (`profiler_agent_embed::library!`). Programs in C are linked
//! with an installed one. The package for Python loads the one that `record` names in
//! [`LIBRARY_VARIABLE`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::console::say;
use crate::preload::{LibraryError, placed, write_whole};

/// The file name of the library.
const FILE_NAME: &str = "libprofiler_agent.so";
/// The bytes of the library; empty if the command was built without it (`cargo check`).
const LIBRARY: &[u8] = profiler_agent_embed::library!();
/// Names the library to programs that load it.
const LIBRARY_VARIABLE: &str = "PROFILER_AGENT";

const HEADER: &str = profiler_agent_embed::header!();
const PKG_CONFIG: &str = profiler_agent_embed::pkg_config!();

/// Installs the library for C programs, or prints its path
///
/// Without an option, prints the path of the library for programs that load it with dlopen.
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
            say(&path()?.to_string_lossy());
            Ok(())
        }
    }
}

/// The path of the library. Writes it to a directory of this user, unless it is there already.
fn path() -> Result<PathBuf, LibraryError> {
    Ok(placed(FILE_NAME, LIBRARY)?.join(FILE_NAME))
}

/// Names the library to the program that `command` starts, unless the user has named another one.
/// Without the library, the program records nothing through it.
pub(crate) fn offer_to(command: &mut Command) {
    if std::env::var_os(LIBRARY_VARIABLE).is_none()
        && let Ok(path) = path()
    {
        command.env(LIBRARY_VARIABLE, path);
    }
}

fn install(prefix: &Path) -> Result<()> {
    if LIBRARY.is_empty() {
        return Err(LibraryError::NotBuilt(FILE_NAME).into());
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
    write_whole(path, bytes, mode)
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
