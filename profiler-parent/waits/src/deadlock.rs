//! Threads that wait for each other and can never go on.
//!
//! A wait ends if one of the processes that can end it does something. So a thread is stuck if all
//! threads of all those processes are stuck. This is the largest set of waiting threads with that
//! property (Knapp, Deadlock Detection in Distributed Databases, 1987: the AND-OR model). Called by
//! the session's reader of observed programs. Pure: the caller says which threads exist.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{WaitSubject, WaitingCall};
use crate::target::{Holders, WaitTarget};

/// A thread, by its number and that of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
}

/// What can end a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// Any thread of any of these processes; not empty.
    Processes(Vec<u32>),
    /// A thread of the same process.
    Thread(u32),
}

impl Blocker {
    /// The processes or the thread that alone can end this wait of a process. `None` if a time
    /// limit or something unknown can end it. A process that only waits for itself may be woken by
    /// its signal handler.
    #[must_use]
    pub fn of(process: u32, call: &WaitingCall, target: &WaitTarget) -> Option<Self> {
        let has_limit = match call.subject() {
            WaitSubject::Poll { has_limit, .. } => has_limit,
            WaitSubject::Epoll(_) | WaitSubject::Select { .. } => true,
            _ => false,
        };
        match &target.holders {
            _ if has_limit => None,
            Holders::Processes(all) if *all == [process] => None,
            Holders::Processes(all) => {
                let able = Some(&target.able).filter(|able| !able.is_empty());
                Some(Self::Processes(able.unwrap_or(all).clone()))
            }
            Holders::Thread(thread) => Some(Self::Thread(*thread)),
            _ => None,
        }
    }
}

/// The threads that can never go on. `threads` lists all threads of a process.
#[must_use]
pub fn stuck_threads(
    waits: &BTreeMap<ThreadKey, Blocker>,
    threads: &dyn Fn(u32) -> Vec<u32>,
) -> BTreeSet<ThreadKey> {
    let mut stuck: BTreeSet<ThreadKey> = waits.keys().copied().collect();
    let processes = waits.values().flat_map(|blocker| match blocker {
        Blocker::Processes(all) => all.clone(),
        Blocker::Thread(_) => Vec::new(),
    });
    let all: BTreeMap<u32, Vec<u32>> = processes.map(|one| (one, threads(one))).collect();
    loop {
        let is_stuck = |process: u32, thread: u32| stuck.contains(&ThreadKey { process, thread });
        let of_process = |(process, threads): (&u32, &Vec<u32>)| {
            let are_stuck = threads.iter().all(|thread| is_stuck(*process, *thread));
            (!threads.is_empty() && are_stuck).then_some(*process)
        };
        let stuck_processes: BTreeSet<u32> = all.iter().filter_map(of_process).collect();
        let are_stuck = |process: &u32| stuck_processes.contains(process);
        let stays = |key: &&ThreadKey| match waits.get(key) {
            Some(Blocker::Processes(all)) => all.iter().all(are_stuck),
            Some(Blocker::Thread(thread)) => is_stuck(key.process, *thread),
            None => false,
        };
        let rest: BTreeSet<ThreadKey> = stuck.iter().filter(stays).copied().collect();
        if rest.len() == stuck.len() {
            return stuck;
        }
        stuck = rest;
    }
}

/// A cycle among stuck threads, which begins with its smallest member. Each waits for the next one,
/// and the last one for the first.
#[must_use]
pub fn cycle(waits: &BTreeMap<ThreadKey, Blocker>, stuck: &BTreeSet<ThreadKey>) -> Vec<ThreadKey> {
    let mut path: Vec<ThreadKey> = Vec::new();
    let mut next = stuck.first().copied();
    while let Some(here) = next {
        if let Some(first) = path.iter().position(|one| *one == here) {
            let mut found = path.split_off(first);
            let least = found.iter().enumerate().min_by_key(|(_, key)| **key);
            let least = least.map_or(0, |(place, _)| place);
            found.rotate_left(least);
            return found;
        }
        path.push(here);
        next = match waits.get(&here) {
            Some(Blocker::Thread(thread)) => Some(ThreadKey {
                thread: *thread,
                ..here
            }),
            Some(Blocker::Processes(all)) => {
                let of_process = |key: &&ThreadKey| all.contains(&key.process);
                stuck.iter().find(of_process).copied()
            }
            None => None,
        };
    }
    Vec::new()
}

/// The stuck threads on which a thread's wait depends, itself included.
#[must_use]
pub fn depended_on(
    waits: &BTreeMap<ThreadKey, Blocker>,
    stuck: &BTreeSet<ThreadKey>,
    thread: ThreadKey,
) -> BTreeSet<ThreadKey> {
    let mut found = BTreeSet::from([thread]);
    let mut next = vec![thread];
    while let Some(here) = next.pop() {
        let depends = |key: &&ThreadKey| match waits.get(&here) {
            Some(Blocker::Processes(all)) => all.contains(&key.process),
            Some(Blocker::Thread(thread)) => (key.process, key.thread) == (here.process, *thread),
            None => false,
        };
        for key in stuck.iter().filter(depends) {
            if found.insert(*key) {
                next.push(*key);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::target::WaitKind;

    fn key(process: u32, thread: u32) -> ThreadKey {
        ThreadKey { process, thread }
    }

    /// The waits of processes with one thread, whose number is that of the process.
    fn waits(all: &[(u32, &[u32])]) -> BTreeMap<ThreadKey, Blocker> {
        let one = |(process, for_whom): &(u32, &[u32])| {
            (
                key(*process, *process),
                Blocker::Processes(for_whom.to_vec()),
            )
        };
        all.iter().map(one).collect()
    }

    fn single(process: u32) -> Vec<u32> {
        vec![process]
    }

    #[test]
    fn processes_that_wait_for_each_other_are_stuck() {
        let waits = waits(&[(1, &[2]), (2, &[1]), (3, &[1]), (4, &[5])]);
        let stuck = stuck_threads(&waits, &single);
        assert_eq!(stuck, BTreeSet::from([key(1, 1), key(2, 2), key(3, 3)]));
        assert_eq!(cycle(&waits, &stuck), [key(1, 1), key(2, 2)]);
        assert_eq!(
            depended_on(&waits, &stuck, key(1, 1)),
            BTreeSet::from([key(1, 1), key(2, 2)])
        );
    }

    #[test]
    fn one_process_or_thread_that_is_not_stuck_ends_the_wait() {
        let with_another = waits(&[(1, &[2, 3]), (2, &[1])]);
        assert!(stuck_threads(&with_another, &single).is_empty());
        let pair = waits(&[(1, &[2]), (2, &[1])]);
        let with_thread = |process| {
            if process == 2 {
                vec![2, 20]
            } else {
                vec![process]
            }
        };
        assert!(stuck_threads(&pair, &with_thread).is_empty());
        assert!(
            stuck_threads(&pair, &|_| Vec::new()).is_empty(),
            "they have ended"
        );
    }

    #[test]
    fn threads_of_one_process_can_be_stuck_while_others_run() {
        let waits = BTreeMap::from([
            (key(1, 10), Blocker::Thread(11)),
            (key(1, 11), Blocker::Thread(10)),
        ]);
        let stuck = stuck_threads(&waits, &|_| vec![1, 10, 11]);
        assert_eq!(stuck.len(), 2);
        assert_eq!(cycle(&waits, &stuck), [key(1, 10), key(1, 11)]);
    }

    #[test]
    fn a_wait_with_a_time_limit_blocks_nothing() {
        let target = WaitTarget::new(WaitKind::Pipe, Holders::Processes(vec![2]));
        let poll = |limit_at: u64| WaitingCall {
            number: libc::SYS_ppoll,
            arguments: [64, 1, limit_at],
        };
        let read = WaitingCall {
            number: libc::SYS_read,
            arguments: [3, 0, 0],
        };
        let blocked = Some(Blocker::Processes(vec![2]));
        assert_eq!(Blocker::of(1, &read, &target), blocked);
        assert_eq!(Blocker::of(1, &poll(4096), &target), None);
        assert_eq!(
            Blocker::of(1, &poll(0), &target),
            Some(Blocker::Processes(vec![2]))
        );
        assert_eq!(
            Blocker::of(2, &read, &target),
            None,
            "a process that waits for itself"
        );
        let time = WaitTarget::new(WaitKind::Sleep, Holders::NoProcess);
        assert_eq!(Blocker::of(1, &read, &time), None);
    }

    proptest! {
        #[test]
        fn every_stuck_thread_waits_for_stuck_threads_only(
            edges in prop::collection::vec((0..8_u32, prop::collection::vec(0..8_u32, 1..3)), 0..10),
        ) {
            let all: Vec<(u32, &[u32])> = edges
                .iter()
                .map(|(from, to)| (*from, to.as_slice()))
                .collect();
            let waits = waits(&all);
            let stuck = stuck_threads(&waits, &single);
            for one in &stuck {
                let Blocker::Processes(all) = &waits[one] else { unreachable!() };
                prop_assert!(all.iter().all(|process| stuck.contains(&key(*process, *process))));
            }
            prop_assert_eq!(cycle(&waits, &stuck).is_empty(), stuck.is_empty());
        }
    }
}
