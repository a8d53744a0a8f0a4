//! The dialogue of a test with a helper process: the test sends commands as lines, and the process
//! answers each with a line.
//!
//! Used by `helper_process` and `joined`, whose processes are started in different ways.

use std::io::{BufRead, Write};
use std::process::ChildStdin;

use anyhow::{Context, bail};

/// Sends a command, and waits for the answer.
pub(crate) fn ask(
    stdin: &mut Option<ChildStdin>,
    stdout: &mut impl BufRead,
    command: &str,
) -> anyhow::Result<String> {
    tell(stdin, command)?;
    let answer = line(stdout)?;
    if let Some(error) = answer.strip_prefix("error ") {
        bail!("{command}: {error}");
    }
    Ok(answer)
}

/// Sends a command.
pub(crate) fn tell(stdin: &mut Option<ChildStdin>, command: &str) -> anyhow::Result<()> {
    let stdin = stdin.as_mut().context("no pipe")?;
    Ok(writeln!(stdin, "{command}")?)
}

/// Reads one line of output.
pub(crate) fn line(stdout: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    if stdout.read_line(&mut line)? == 0 {
        bail!("the helper process has ended");
    }
    Ok(line.trim_end().to_owned())
}
