//! Which processes hold an object: the descriptors of the recorded processes, by object. Used by
//! `resolver`.
//!
//! A process inherits descriptors that it does not use. If some of the holders were seen in a call
//! on the object, only these count. Invariant: at most [`MAX_DESCRIPTORS`] descriptors of a process
//! are looked at.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::call::Direction;
use crate::clock::now;
use crate::object::{DescriptorTable, WaitObject};

/// The maximum number of descriptors of a process that are looked at.
const MAX_DESCRIPTORS: usize = 1024;
/// How long the finding that no other process holds an object is kept.
const CHECK_LASTS: Duration = Duration::from_millis(500);
/// The maximum number of objects whose users are noted.
const MAX_USED: usize = 4096;

/// A descriptor of a process.
#[derive(Clone, Debug)]
struct End {
    process: u32,
    descriptor: i32,
    /// Whether it can be read from and written to. Empty until this is looked up.
    access: OnceCell<Option<(bool, bool)>>,
}

impl End {
    fn access(&self) -> Option<(bool, bool)> {
        let look_up = || table(self.process).access(self.descriptor);
        *self.access.get_or_init(look_up)
    }
}

/// The holders of all objects.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    all: HashMap<WaitObject, Vec<End>>,
    users: HashMap<WaitObject, BTreeSet<u32>>,
    /// Objects that no other process held when the descriptors were read, with the time of the
    /// reading.
    checked: HashMap<WaitObject, Instant>,
}

impl Ends {
    /// Reads the descriptors of these processes.
    pub(crate) fn read(&mut self, processes: &[u32]) {
        self.all.clear();
        for process in processes {
            let table = table(*process);
            for (descriptor, object) in table.numbered_objects(MAX_DESCRIPTORS) {
                let process = *process;
                let end = End {
                    process,
                    descriptor,
                    access: OnceCell::new(),
                };
                self.all.entry(object).or_default().push(end);
            }
        }
    }

    /// Whether the descriptors were read for this object in the last [`CHECK_LASTS`].
    pub(crate) fn is_checked(&self, object: WaitObject) -> bool {
        let checked = self.checked.get(&object);
        checked.is_some_and(|checked| checked.elapsed() < CHECK_LASTS)
    }

    /// Notes that the descriptors were read for this object.
    pub(crate) fn check(&mut self, object: WaitObject) {
        if self.checked.len() >= MAX_USED {
            self.checked.clear();
        }
        self.checked.insert(object, now());
    }

    /// Notes that a process was seen in a call on an object.
    pub(crate) fn note_user(&mut self, object: WaitObject, process: u32) {
        if self.users.len() >= MAX_USED && !self.users.contains_key(&object) {
            self.users.clear();
        }
        self.users.entry(object).or_default().insert(process);
    }

    /// All processes that hold an end with which they can answer, `waiter` included.
    pub(crate) fn able(&self, object: WaitObject, waits: Option<Direction>) -> BTreeSet<u32> {
        let ends = self.all.get(&object).map(Vec::as_slice).unwrap_or_default();
        let can_answer = |end: &&End| {
            end.access().is_some_and(|(reads, writes)| match waits {
                Some(Direction::Reads) => writes,
                Some(Direction::Writes) => reads,
                None => true,
            })
        };
        let able = ends.iter().filter(can_answer);
        able.map(|end| end.process).collect()
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget(&mut self, process: u32) {
        for ends in self.all.values_mut() {
            ends.retain(|end| end.process != process);
        }
        for users in self.users.values_mut() {
            users.remove(&process);
        }
    }

    /// The processes that hold the end of a pipe opposite to the one that a thread of `waiter`
    /// uses, or any end of a socket. `waiter` itself counts only if no other process holds an end.
    pub(crate) fn holders(
        &self,
        object: WaitObject,
        waits: Option<Direction>,
        waiter: u32,
    ) -> Vec<u32> {
        let mut all = self.able(object, waits);
        let others = all.iter().any(|holder| *holder != waiter);
        if others {
            all.remove(&waiter);
        }
        if let Some(users) = self.users.get(&object).filter(|_| all.len() > 1) {
            let using: BTreeSet<u32> = all.intersection(users).copied().collect();
            if !using.is_empty() {
                all = using;
            }
        }
        all.into_iter().collect()
    }
}

const fn table(process: u32) -> DescriptorTable {
    DescriptorTable {
        process,
        thread: process,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_process_that_holds_both_ends_waits_for_itself() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let own = std::process::id();
        let object = table(own).object(reader.as_raw_fd()).unwrap();
        let mut ends = Ends::default();
        ends.read(&[own]);
        assert_eq!(ends.holders(object, Some(Direction::Reads), own), [own]);
    }

    #[test]
    fn the_other_end_counts_and_the_own_one_does_not() {
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let own = std::process::id();
        let output = child.stdout.as_ref().unwrap().as_raw_fd();
        let input = child.stdin.as_ref().unwrap().as_raw_fd();
        let mut ends = Ends::default();
        ends.read(&[own, child.id()]);
        let object = |descriptor| table(own).object(descriptor).unwrap();
        let reads = ends.holders(object(output), Some(Direction::Reads), own);
        assert_eq!(reads, [child.id()], "it writes what this process reads");
        let writes = ends.holders(object(input), Some(Direction::Reads), child.id());
        assert_eq!(writes, [own], "this process writes what it reads");
        child.kill().unwrap();
        child.wait().unwrap();
        ends.read(&[own]);
        assert!(
            ends.holders(object(output), Some(Direction::Reads), own)
                .is_empty()
        );
    }

    #[test]
    fn of_several_holders_those_count_that_use_the_object() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let own = std::process::id();
        let object = table(own).object(reader.as_raw_fd()).unwrap();
        let mut ends = Ends::default();
        ends.read(&[own]);
        ends.note_user(object, own);
        assert_eq!(ends.holders(object, None, 1), [own]);
    }
}
