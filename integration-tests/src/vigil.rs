//! A test that hangs says where, and ends.
//!
//! Held by every test that has its turn (`session::turn`). If a turn takes longer than anything that could
//! be meant, everybody below this process is shown as the system sees them (thread, state, system call),
//! they are killed and this process aborts: a hang costs minutes instead of the whole run, and is a finding.
//! `PROFILER_TEST_PATIENCE_S` changes the time, for runs that are long on purpose.

use std::fs;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use profiler_core::sys::spawn_quiet;

use crate::patience::Stopwatch;

/// Far longer than the longest test, and than a few of its deadlines.
const PATIENCE: Duration = Duration::from_secs(600);

/// Somebody who watches until this is dropped.
#[derive(Debug)]
pub struct Vigil {
    _until: Sender<()>,
}

impl Vigil {
    /// Begins to watch.
    pub fn keep() -> Self {
        let (until, ends) = channel();
        let name = std::thread::current().name().unwrap_or("a test").to_owned();
        // Without it, if the system has no thread left.
        drop(spawn_quiet("test-vigil", move || watch(&name, patience(), &ends)));
        Self { _until: until }
    }
}

fn patience() -> Duration {
    let wanted = std::env::var("PROFILER_TEST_PATIENCE_S").ok().and_then(|text| text.parse().ok());
    wanted.map_or(PATIENCE, Duration::from_secs)
}

fn watch(name: &str, patience: Duration, ends: &Receiver<()>) {
    let watch = Stopwatch::start();
    if ends.recv_timeout(patience) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let own = std::process::id();
    let family = family_of(own);
    let portraits: String = family.iter().map(|pid| portrait(*pid)).collect();
    let waited = watch.elapsed().as_secs();
    let text = format!("\n{name} has hung for {waited} s; everybody that it concerns:\n{portraits}");
    let _ = std::io::stderr().write_all(text.as_bytes()); // not `eprint!`, which a test harness keeps to itself
    family.iter().filter(|pid| **pid != own).for_each(|pid| kill(*pid));
    std::process::abort();
}

/// A process and all that came from it.
fn family_of(first: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect();
    let mut family = vec![first];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        next += 1;
    }
    family
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A process and its threads: state, where in the kernel, system call with arguments, stack and code address.
fn portrait(pid: u32) -> String {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default().trim().replace('\0', " ");
    let mut text = format!("{pid} (of {:?}): {}\n", parent_of(pid), read(format!("/proc/{pid}/cmdline")));
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let part = |name| read(task.path().join(name).display().to_string());
        let state = part("stat").rsplit_once(')').map(|(_, rest)| rest.chars().take(3).collect::<String>());
        let (name, place, call) = (part("comm"), part("wchan"), part("syscall"));
        let state = state.unwrap_or_default();
        text += &format!("  {:?} {name}:{state} {place} {call}\n", task.file_name());
    }
    text
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
}
