//! Runs the `profiler` command as a user does.
//!
//! Used by the tests `command_*`, among others.

#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

/// The result of the command.
#[derive(Debug)]
pub struct Said {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
}

/// Returns the path of the command. Cargo builds the command together with all tests. To run a
/// single test or the figures, build the command first.
///
/// # Errors
/// When the command was not built.
pub fn profiler() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    // A test is in a directory below that of the programs.
    let directories = own.ancestors().skip(1).take(2);
    let mut built = directories.map(|directory| directory.join("profiler"));
    let built = built.find(|program| program.is_file());
    built.context("not built: cargo build -p profiler-cli")
}

/// Returns the directory in which the command keeps its library during tests: not in that of the
/// user, and once for all tests. Those of earlier builds of the command are removed.
///
/// # Errors
/// When the command was not built, or the directory cannot be made.
pub fn cache() -> anyhow::Result<PathBuf> {
    let command = profiler()?;
    let all = command.with_file_name("cache-of-tests");
    let built = command.metadata()?.modified()?.duration_since(UNIX_EPOCH)?;
    let own = all.join(built.as_nanos().to_string());
    std::fs::create_dir_all(&own)?;
    for other in std::fs::read_dir(&all)?.flatten() {
        if other.path() != own {
            let _ = std::fs::remove_dir_all(other.path()); // another test may do the same
        }
    }
    Ok(own)
}

/// Gives the signals of a terminal their default actions in the program that `command` starts.
///
/// A shell without job control starts background commands with SIGINT and SIGQUIT ignored, and
/// programs inherit this. Tests that send these signals call this function, so that they also pass
/// in such a shell.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: async-signal-safe; the default action refers to no function.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls `signal` and reads `errno`; it neither allocates nor locks.
    unsafe { command.pre_exec(reset) }
}

/// Runs the command.
///
/// # Errors
/// When the command was not built, or its output is not text.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<Said> {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(profiler()?).args(arguments).output()?;
    let out = String::from_utf8(stdout)?;
    let error = String::from_utf8(stderr)?;
    Ok(Said {
        code: status.code(),
        out,
        error,
    })
}

/// Runs the command, which must succeed.
///
/// # Errors
/// As [`run`], and when it fails.
pub fn succeed<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<Said> {
    let said = run(arguments)?;
    ensure!(said.code == Some(0), "{said:?}");
    Ok(said)
}

/// Runs the command, which must fail with exit code 2, and print nothing but one line on standard
/// error.
///
/// # Errors
/// As [`run`], and when it does anything else.
pub fn fail<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<Said> {
    let said = run(arguments)?;
    let is_one_line = said.out.is_empty() && said.error.lines().count() == 1;
    ensure!(said.code == Some(2) && is_one_line, "{said:?}");
    Ok(said)
}

/// Recovers the session of a pool directory, as `profiler recover` does with these options.
///
/// # Errors
/// As [`succeed`].
pub fn recover(pools: &Path, to: &Path, options: &[&str]) -> anyhow::Result<Said> {
    let words = [Path::new("recover"), pools, Path::new("-o"), to];
    let options = options.iter().map(Path::new);
    succeed(&words.into_iter().chain(options).collect::<Vec<_>>())
}

/// Reads a JSON file.
///
/// # Errors
/// When it is not JSON.
pub fn json(path: &Path) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

/// Makes a temporary directory that only this user can read, as pool directories must be.
///
/// # Errors
/// When it cannot be made.
pub fn private_directory() -> anyhow::Result<TempDir> {
    let owner_only = PermissionsExt::from_mode(0o700);
    Ok(tempfile::Builder::new().permissions(owner_only).tempdir()?)
}

/// Runs `profiler info --json` on a file, and returns the parsed output.
///
/// # Errors
/// When it fails.
pub fn info(path: &Path) -> anyhow::Result<Value> {
    let said = succeed(&[OsStr::new("info"), OsStr::new("--json"), path.as_os_str()])?;
    Ok(serde_json::from_str(&said.out)?)
}
