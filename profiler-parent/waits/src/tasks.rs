//! The threads and children of a process, and their numbers in its PID namespace.
//!
//! Used by `resolver`. The arguments of a call and the words of a lock contain the numbers that the
//! process itself sees; the profiler sees the numbers of its own namespace.

use std::fs;

/// The maximum number of threads whose children are listed, and of threads that are compared.
const MAX_THREADS: usize = 256;
/// The maximum number of children of a process.
const MAX_CHILDREN: usize = 64;

/// The children of a process that have not ended, ascending.
pub(crate) fn children(process: u32) -> Vec<u32> {
    let mut all = started_by(process);
    all.retain(|child| !has_ended(*child));
    all.sort_unstable();
    all
}

/// The children of a process, also those that have ended and are not waited for.
pub(crate) fn started_by(process: u32) -> Vec<u32> {
    let list = |thread: u32| {
        let path = format!("/proc/{process}/task/{thread}/children");
        fs::read_to_string(path).unwrap_or_default()
    };
    threads(process)
        .iter()
        .flat_map(|thread| numbers(&list(*thread)))
        .take(MAX_CHILDREN)
        .collect()
}

/// The child of a process with this number in the namespace of the process.
pub(crate) fn child(process: u32, number: u32) -> Option<u32> {
    if is_in_own_namespace(process) {
        return Some(number);
    }
    let mut all = children(process).into_iter();
    all.find(|child| own_number(*child, *child) == Some(number))
}

/// The thread with this number in the namespace of a process, and the thread's process.
pub(crate) fn thread(process: u32, number: u32) -> Option<(u32, u32)> {
    if is_in_own_namespace(process) {
        let owner = status(number, number, "Tgid:")?;
        return Some((owner.parse().ok()?, number));
    }
    let mut all = threads(process).into_iter();
    let found = all.find(|thread| own_number(process, *thread) == Some(number))?;
    Some((process, found))
}

/// The thread of a process that has this number in the namespace of the process.
#[must_use]
pub fn thread_of(process: u32, number: u32) -> Option<u32> {
    let found = thread(process, number);
    found.and_then(|(owner, thread)| (owner == process).then_some(thread))
}

/// The process that has started this one.
pub(crate) fn parent(process: u32) -> Option<u32> {
    status(process, process, "PPid:")?.parse().ok()
}

fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.into_iter().flatten().flatten().take(MAX_THREADS);
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

fn numbers(list: &str) -> Vec<u32> {
    let words = list.split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process is a zombie: a wait for it is over.
fn has_ended(process: u32) -> bool {
    status(process, process, "State:").is_none_or(|state| state.starts_with(['Z', 'X']))
}

/// Whether a process has the PID namespace of this one. Also true if the system does not show the
/// namespace.
fn is_in_own_namespace(process: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    match (namespace("self"), namespace(&process.to_string())) {
        (Some(own), Some(other)) => own == other,
        _ => true,
    }
}

/// The number that a thread has in its own namespace.
fn own_number(process: u32, thread: u32) -> Option<u32> {
    let all = status(process, thread, "NSpid:")?;
    all.split_ascii_whitespace().next_back()?.parse().ok()
}

/// A value in the status of a thread.
fn status(process: u32, thread: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).ok()?;
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn children_are_listed_until_they_end() {
        let own = std::process::id();
        let mut running = Command::new("sleep").arg("100").spawn().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        while !has_ended(ended.id()) {
            std::thread::yield_now();
        }
        let found = children(own);
        assert!(found.contains(&running.id()));
        assert!(!found.contains(&ended.id()), "a zombie");
        assert_eq!(child(own, running.id()), Some(running.id()));
        running.kill().unwrap();
        running.wait().unwrap();
        ended.wait().unwrap();
    }

    #[test]
    fn a_thread_has_its_process() {
        let own = std::process::id();
        assert_eq!(thread(own, own), Some((own, own)));
        let mut other = Command::new("sleep").arg("100").spawn().unwrap();
        let number = other.id();
        assert_eq!(
            thread(own, number),
            Some((number, number)),
            "of another process"
        );
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(thread(own, number), None, "it has ended");
    }
}
