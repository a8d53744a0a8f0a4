//! The `profiler` command, as a user runs it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use serde_json::Value;

/// What the command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
}

/// The command. Cargo builds it with all tests; for one test alone, build it first.
///
/// # Errors
/// When it was not built.
pub fn profiler() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let built = test.ancestors().nth(2).context("no target directory")?.join("profiler");
    ensure!(built.exists(), "not built: cargo build -p profiler-parent --bin profiler");
    Ok(built)
}

/// Runs the command.
///
/// # Errors
/// When it was not built, or does not say text.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> anyhow::Result<Said> {
    let Output { status, stdout, stderr } = Command::new(profiler()?).args(arguments).output()?;
    let (out, error) = (String::from_utf8(stdout)?, String::from_utf8(stderr)?);
    Ok(Said { code: status.code(), out, error })
}

/// Runs `profiler info --json`.
///
/// # Errors
/// When it fails.
pub fn info(path: &std::path::Path) -> anyhow::Result<Value> {
    let said = run(&[OsStr::new("info"), OsStr::new("--json"), path.as_os_str()])?;
    ensure!(said.code == Some(0), "{said:?}");
    Ok(serde_json::from_str(&said.out)?)
}
