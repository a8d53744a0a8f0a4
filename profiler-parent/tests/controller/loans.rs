//! Tests of the first allowances of processes that join idle ones.
//!
//! The processes here obey each command at once, and report what they hold only if they are asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::Update;
use profiler_parent::internal::controller::{Command, Controller, Event, Policy};

use super::child::key;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 128 * MIB;
const POLICY: Policy = Policy {
    floor: 132 << 10,
    page: 4096,
    initial: LIMIT / 4,
    usual: 1 << 20,
    reserve: 528 << 10,
};

/// A session of idle processes.
struct IdleSession {
    controller: Controller,
    obeyed: BTreeMap<PoolId, ByteLimit>,
    /// The processes that have reported.
    reported: BTreeSet<PoolId>,
    /// What each process holds, in bytes.
    held: BTreeMap<PoolId, u64>,
}

impl IdleSession {
    fn new() -> Self {
        Self {
            controller: Controller::new(ByteLimit::new(LIMIT), POLICY),
            obeyed: BTreeMap::new(),
            reported: BTreeSet::new(),
            held: BTreeMap::new(),
        }
    }

    /// Handles an event, and everything that the processes answer.
    fn handle(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut commands = Vec::new();
            self.controller.handle(event, &mut commands);
            assert!(self.controller.charged() <= LIMIT);
            let answers = commands
                .into_iter()
                .filter_map(|command| self.answer(command));
            events.extend(answers);
        }
    }

    /// What a process reports after a command.
    fn answer(&mut self, command: Command) -> Option<Event> {
        let (key, reports) = match command {
            Command::Await { key, allowance } => {
                let before = self.obeyed.insert(key, allowance);
                let is_lower = before.is_some_and(|before| allowance < before);
                (key, self.reported.insert(key) || is_lower)
            }
            Command::Destroy { key, .. } => (key, true),
            Command::Admit { key, allowance } => {
                self.obeyed.insert(key, allowance);
                (key, false)
            }
            other => panic!("{other:?}"),
        };
        let update = Update {
            unreleased_bytes: 64 << 10,
            released_bytes: self.held.get(&key).copied().unwrap_or(0),
            oldest_done: None,
            newly_released: Vec::new(),
            wanted_bytes: 0,
            allowance: self.obeyed.get(&key).copied()?,
        };
        reports.then_some(Event::Update { key, update })
    }

    /// A process joins. Returns its first allowance.
    fn join(&mut self, pid: u32) -> u64 {
        let key = key(pid, 1);
        let mut admitted = Vec::new();
        self.controller.handle(Event::Join { key }, &mut admitted);
        let Some(Command::Admit { allowance, .. }) = admitted.first() else {
            panic!("{admitted:?}");
        };
        let first = allowance.get();
        let answers: Vec<Event> = admitted
            .into_iter()
            .filter_map(|command| self.answer(command))
            .collect();
        answers.into_iter().for_each(|answer| self.handle(answer));
        self.handle(Event::Connected { key });
        first
    }
}

#[test]
fn each_process_that_joins_idle_ones_gets_an_equal_part_of_what_is_lent() {
    let mut session = IdleSession::new();
    for processes in 1..=60_u32 {
        let first = session.join(processes);
        let part = (LIMIT - LIMIT / 8) / u64::from(processes);
        let part = part.min(POLICY.initial);
        assert!(
            first <= part && first + MIB / 8 > part,
            "{first} of {part} with {processes} processes"
        );
    }
    let free = session.controller.free();
    assert!(free >= LIMIT / 8, "{free} bytes are free for growth");
}

#[test]
fn each_of_100_processes_gets_at_least_the_usual_first_allowance() {
    let mut session = IdleSession::new();
    let least = (0..100).map(|pid| session.join(pid)).min();
    assert_eq!(least, Some(MIB));
}

#[test]
fn a_recall_does_not_take_a_loan_that_is_in_use() {
    let mut session = IdleSession::new();
    let first = session.join(1);
    assert_eq!(first, POLICY.initial);
    // It records, and its next report is the answer to the recall.
    session.held.insert(key(1, 1), first - MIB);
    for pid in 2..=20 {
        session.join(pid);
        let allowance = session.obeyed[&key(1, 1)].get();
        assert_eq!(allowance, first, "with {pid} processes");
    }
}
