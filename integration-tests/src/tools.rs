//! The `profiler` command, as a user runs it.

#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
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
    ensure!(built.exists(), "not built: cargo build -p profiler-cli");
    Ok(built)
}

/// Gives the signals of a terminal their default actions in this program.
///
/// A shell without job control starts its background commands with SIGINT and SIGQUIT ignored, and
/// a program inherits that. Tests that send these signals call this, so that they pass there too.
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
