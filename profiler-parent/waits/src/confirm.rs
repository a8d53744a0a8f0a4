//! Checks a deadlock once more, before it is reported, with everything read anew.
//!
//! Called by the threads of the session that look up waits, very seldom. What was noted earlier may
//! be old, and of the recorded processes only. Here, the holders are searched among all processes
//! of the system. Invariant: a wait that cannot be read is not stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::call::WaitingCall;
use crate::deadlock::{Blocker, ThreadKey, stuck_threads};
use crate::resolver::WaitResolver;

/// The maximum number of threads that are checked.
const MAX_THREADS: usize = 64;

/// The beginning of the names of the profiler's own threads.
const PROFILERS: &[u8] = b"profiler-";

/// Whether these threads are stuck at present: each waits only for others of them.
#[must_use]
pub fn are_stuck(threads: &BTreeSet<ThreadKey>) -> bool {
    if threads.len() > MAX_THREADS {
        return false;
    }
    let mut resolver = WaitResolver::without_pauses();
    let all = numbers("/proc");
    let mut waits = BTreeMap::new();
    for key in threads {
        let Some(blocker) = blocker(&mut resolver, *key, &all) else {
            return false;
        };
        waits.insert(*key, blocker);
    }
    stuck_threads(&waits, &program_threads) == *threads
}

/// The threads of a process without those of the profiler, which end no wait of the program. Empty
/// if it has ended.
#[must_use]
pub fn program_threads(process: u32) -> Vec<u32> {
    let mut all = numbers(&format!("/proc/{process}/task"));
    let name = |thread| fs::read(format!("/proc/{process}/task/{thread}/comm"));
    let is_profilers = |thread| name(thread).is_ok_and(|name| name.starts_with(PROFILERS));
    all.retain(|thread| *thread == process || !is_profilers(*thread));
    all
}

/// What alone can end the wait of a thread.
fn blocker(resolver: &mut WaitResolver, key: ThreadKey, all: &[u32]) -> Option<Blocker> {
    let ThreadKey { process, thread } = key;
    let call = call(key)?;
    let memory = File::open(format!("/proc/{process}/mem"));
    let mut read = |address: u64, room: &mut [u8]| {
        let memory = memory.as_ref().ok();
        memory.is_some_and(|memory| memory.read_exact_at(room, address).is_ok())
    };
    let target = resolver.resolve((process, thread), &call, &|| all.to_vec(), &mut read)?;
    Blocker::of(process, &call, &target)
}

/// The call in which a thread waits.
fn call(key: ThreadKey) -> Option<WaitingCall> {
    let ThreadKey { process, thread } = key;
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some(WaitingCall {
        number,
        arguments: [argument()?, argument()?, argument()?],
    })
}

/// The names of a directory that are numbers.
fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn key(process: u32) -> ThreadKey {
        ThreadKey {
            process,
            thread: process,
        }
    }

    fn waits_in_a_call(child: &Child) {
        while call(key(child.id())).is_none() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_waits_for_one_that_runs_is_not_stuck() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        waits_in_a_call(&child);
        assert!(!are_stuck(&BTreeSet::from([key(child.id())])));
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"go on").unwrap();
        drop(input);
        child.wait().unwrap();
        assert!(
            !are_stuck(&BTreeSet::from([key(child.id())])),
            "it has ended"
        );
    }
}
