//! Forks and grandchildren, and what they have of us.

use std::process::Command;

use anyhow::{Context, bail};
use integration_tests::marks;
use ipc_protocol::environment::VARIABLE;

use crate::{Words, number};

pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    Some(match name {
        "fork" => fork(words),
        "grandchild" => grandchild(),
        _ => return None,
    })
}

/// `fork COUNT`: both record so many markers as thread 2000, this process after the other one
/// has ended.
fn fork(words: Words<'_>) -> anyhow::Result<String> {
    let count = number(words, 0)?;
    // SAFETY: the forked process calls nothing that needs a lock another thread may hold:
    // recording is off in it, which is what the test is about.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => bail!("cannot fork"),
        0 => {
            (0..count).for_each(|sequence| marks::record(2000, sequence));
            // SAFETY: ends the forked process.
            #[allow(unsafe_code)]
            unsafe {
                libc::_exit(0)
            }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for the process made above, into a local.
            #[allow(unsafe_code)]
            unsafe {
                libc::waitpid(pid, &mut status, 0)
            };
            (0..count).for_each(|sequence| marks::record(2000, sequence));
            Ok(format!("ok {status}"))
        }
    }
}

/// Starts this program again, to say what it got from us.
fn grandchild() -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let output = Command::new(program).arg("inventory").output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(format!("ok {}", text.lines().next().context("it said nothing")?))
}

/// Prints whether the variable is set, and what the open descriptors are, on one line.
pub(crate) fn print_inventory() -> anyhow::Result<()> {
    let variable = if std::env::var_os(VARIABLE).is_some() { "variable" } else { "no-variable" };
    let mut line = variable.to_owned();
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let number = entry.file_name();
        if let Ok(target) = std::fs::read_link(entry.path()) {
            line.push_str(&format!(
                " {}={}",
                number.to_string_lossy(),
                target.to_string_lossy().replace(' ', "_")
            ));
        }
    }
    println!("{line}");
    Ok(())
}
