//! Waits for a process, and kills it if it hangs.
//!
//! Used by [`mod@crate::own_process`] for every test that runs in a separate process. If the
//! process runs longer than any test needs, the watchdog reports the threads of the process and of
//! all its descendants with their state and system call, and kills these processes. A test that
//! hangs is then a failure that shows where it hangs, and the other tests continue.
//!
//! `PROFILER_TEST_PATIENCE_S` changes the time, for tests that are made to run longer.

use std::fs;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::patience::Stopwatch;

/// Far longer than the longest test, even if the test reaches a few of its time-outs.
const PATIENCE: Duration = Duration::from_secs(600);
/// Time between two checks whether the process has ended.
const INTERVAL: Duration = Duration::from_millis(1);

/// Waits until `child` has ended. `test` is its name in messages.
///
/// # Errors
/// If the process hangs. It is then killed.
pub fn wait(mut child: Child, test: &str) -> anyhow::Result<ExitStatus> {
    let watch = Stopwatch::start();
    let patience = patience();
    loop {
        if let Some(status) = child.try_wait().context("the process of a test is gone")? {
            return Ok(status);
        }
        if watch.elapsed() > patience {
            let report = end(child.id());
            let _ = child.wait();
            bail!(
                "{test} has not ended within {} s. Its processes:\n{report}",
                patience.as_secs()
            );
        }
        std::thread::sleep(INTERVAL);
    }
}

fn patience() -> Duration {
    let wanted = std::env::var("PROFILER_TEST_PATIENCE_S")
        .ok()
        .and_then(|text| text.parse().ok());
    wanted.map_or(PATIENCE, Duration::from_secs)
}

/// Kills a process and all its descendants, and reports what they were doing.
fn end(first: u32) -> String {
    let tree = subtree(first);
    let report = tree.iter().map(|pid| describe(*pid)).collect();
    tree.iter().for_each(|pid| kill(*pid));
    report
}

/// Returns a process and all its descendants.
fn subtree(first: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut tree = vec![first];
    let mut next = 0;
    while let Some(pid) = tree.get(next).copied() {
        tree.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == pid)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    tree
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Describes a process and its threads: name, state, function in the kernel, and system call with
/// arguments.
fn describe(pid: u32) -> String {
    let read = |path: String| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .replace('\0', " ")
    };
    let command = read(format!("/proc/{pid}/cmdline"));
    let mut text = format!("{pid} (of {:?}): {command}\n", parent_of(pid));
    for task in fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let part = |name| read(task.path().join(name).display().to_string());
        let stat = part("stat");
        let state: String = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.chars().take(3).collect())
            .unwrap_or_default();
        let name = part("comm");
        let place = part("wchan");
        let call = part("syscall");
        text += &format!("  {:?} {name}:{state} {place} {call}\n", task.file_name());
    }
    text
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_hangs_is_described_and_killed_with_its_descendants() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 98765 & wait"])
            .spawn()
            .unwrap();
        assert!(crate::patience::until(|| subtree(child.id()).len() == 2));
        let tree = subtree(child.id());
        let report = end(child.id());
        assert!(report.contains("sleep 98765"), "{report}");
        child.wait().unwrap();
        let is_gone =
            |pid: &u32| describe(*pid).lines().count() == 1 || describe(*pid).contains(": Z");
        assert!(
            crate::patience::until(|| tree.iter().all(is_gone)),
            "{tree:?}"
        );
    }
}
