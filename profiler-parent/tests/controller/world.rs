//! A model of a parent, its processes and the channels between them.
//!
//! Used by `properties`, which carries out one small step after another. The messages of a process
//! are delivered in order, and as late as the history says. All invariants are checked after every
//! event and after every step of a process.

use std::collections::VecDeque;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{Command, Controller, Event, Policy, ProcessFigures};

use super::child::{Child, key};
use super::ledger::Ledger;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const POLICY: Policy = Policy {
    floor: 3 * PAGE,
    page: PAGE,
    initial: 64 * PAGE,
    reserve: 3 * PAGE,
};

/// A process in a history.
#[derive(Debug)]
struct Node {
    key: PoolId,
    child: Option<Child>,
    dead: bool,
    connected: bool,
    /// Whether the process is stopped by a signal: it neither answers nor records.
    frozen: bool,
    to_child: VecDeque<Command>,
    to_parent: VecDeque<Event>,
    /// Commands for its pool that the parent has not carried out yet.
    jobs: VecDeque<Command>,
    awaiting: bool,
    destroying: bool,
    ledger: Ledger,
}

#[derive(Debug)]
pub(crate) struct World {
    controller: Controller,
    nodes: Vec<Node>,
    /// The maximum sum of allowances: the limit, or a decreasing value after the limit was lowered.
    ceiling: u64,
    now: u64,
    lives: u64,
}

impl World {
    pub(crate) fn new(limit: u64) -> Self {
        let controller = Controller::new(ByteLimit::new(limit), POLICY);
        Self {
            controller,
            nodes: Vec::new(),
            ceiling: limit,
            now: 1,
            lives: 0,
        }
    }

    fn pick(&mut self, index: usize) -> Option<&mut Node> {
        let count = self.nodes.len().max(1);
        self.nodes.get_mut(index % count)
    }

    /// A new process joins; an earlier process may have had the same pid.
    pub(crate) fn join(&mut self, pid: u32) {
        self.lives += 1;
        let key = key(pid, self.lives);
        self.nodes.push(Node {
            key,
            child: None,
            dead: false,
            connected: false,
            frozen: false,
            to_child: VecDeque::new(),
            to_parent: VecDeque::new(),
            jobs: VecDeque::new(),
            awaiting: false,
            destroying: false,
            ledger: Ledger::default(),
        });
        self.handle(Event::Join { key });
    }

    /// A refused process tries to join again.
    pub(crate) fn retry(&mut self, index: usize) {
        let refused = self
            .pick(index)
            .filter(|node| node.child.is_none())
            .map(|node| node.key);
        if let Some(key) = refused {
            self.handle(Event::Join { key });
        }
    }

    pub(crate) fn fill(&mut self, index: usize, class: u32) {
        self.now += 1 + u64::from(class);
        let now = self.now;
        self.with_child(index, |child| child.fill(now, PAGE << class));
    }

    pub(crate) fn obey(&mut self, index: usize) {
        self.with_child(index, Child::obey);
    }

    fn with_child(&mut self, index: usize, act: impl FnOnce(&mut Child)) {
        let Some(node) = self.pick(index).filter(|node| !node.frozen && !node.dead) else {
            return;
        };
        let Some(child) = &mut node.child else { return };
        act(child);
        if let Some(update) = child.answer() {
            node.to_parent.push_back(Event::Update {
                key: node.key,
                update,
            });
        }
        self.check();
    }

    pub(crate) fn deliver_to_child(&mut self, index: usize) {
        let Some(node) = self.pick(index).filter(|node| !node.frozen && !node.dead) else {
            return;
        };
        let Some(command) = node.to_child.pop_front() else {
            return;
        };
        self.with_child(index, |child| match command {
            Command::Await { allowance, .. } => child.on_await(allowance),
            Command::Destroy { at_or_before, .. } => child.on_destroy(at_or_before),
            other => panic!("{other:?} sent to a process"),
        });
    }

    pub(crate) fn deliver_to_parent(&mut self, index: usize) {
        let Some(event) = self.pick(index).and_then(|node| node.to_parent.pop_front()) else {
            return;
        };
        self.handle(event);
    }

    pub(crate) fn freeze(&mut self, index: usize, frozen: bool) {
        if let Some(node) = self.pick(index) {
            node.frozen = frozen;
        }
    }

    pub(crate) fn die(&mut self, index: usize) {
        self.now += 1;
        let now = self.now;
        let Some(node) = self.pick(index).filter(|node| !node.dead) else {
            return;
        };
        let Some(child) = &mut node.child else { return };
        let pool = child.die(now);
        node.dead = true;
        node.to_child.clear();
        let key = node.key;
        self.handle(Event::Died { key, pool });
    }

    /// The channel breaks and is connected again. Messages on the way are lost.
    pub(crate) fn reconnect(&mut self, index: usize) {
        let Some(node) = self.pick(index).filter(|node| node.connected && !node.dead) else {
            return;
        };
        node.to_child.clear();
        node.to_parent.clear();
        node.connected = false;
        (node.awaiting, node.destroying) = (false, false);
        node.child.iter_mut().for_each(Child::reconnect);
        node.to_parent.push_back(Event::Connected { key: node.key });
        let key = node.key;
        self.handle(Event::Disconnected { key });
    }

    /// The parent carries out a command for a dead pool.
    pub(crate) fn work(&mut self, index: usize) {
        let Some(node) = self.pick(index) else { return };
        let Some(job) = node.jobs.pop_front() else {
            return;
        };
        let Some(child) = &mut node.child else {
            panic!("{job:?} without a pool")
        };
        match job {
            Command::DestroyDead { key, at_or_before } => {
                child.destroy(at_or_before);
                let held_bytes = child.held();
                self.handle(Event::DeadDestroyed { key, held_bytes });
            }
            Command::DropDead { key } => self.forget_key(key),
            other => panic!("{other:?} as a job"),
        }
    }

    pub(crate) fn forget(&mut self, index: usize) {
        if let Some(key) = self.pick(index).map(|node| node.key) {
            self.forget_key(key);
        }
    }

    fn forget_key(&mut self, key: PoolId) {
        self.nodes.retain(|node| node.key != key);
        self.handle(Event::Forgotten { key });
    }

    /// The parent no longer expects that debts are paid.
    pub(crate) fn overdue(&mut self) {
        self.handle(Event::Overdue);
    }

    /// The parent measures the pool of a process, which occupies `pages` more than the process
    /// holds.
    pub(crate) fn scribble(&mut self, index: usize, pages: u64) {
        let Some(node) = self.pick(index) else { return };
        let (Some(child), key) = (&node.child, node.key) else {
            return;
        };
        let true_bytes = child.held() + pages * PAGE;
        let dead = node.dead;
        self.ceiling = self.ceiling.max(self.counted() + true_bytes);
        let charged = self.controller.figures(key).unwrap().charged;
        self.handle(Event::Occupies { key, true_bytes });
        let excess = if dead {
            0
        } else {
            true_bytes.saturating_sub(charged)
        };
        assert_eq!(self.controller.figures(key).unwrap().excess, excess);
    }

    /// The bytes that count against the limit: all charged bytes, with at most half of the limit
    /// for bytes above allowances.
    fn counted(&self) -> u64 {
        let excess: u64 = self
            .controller
            .all_figures()
            .map(|(_, figures)| figures.excess)
            .sum();
        self.controller.charged() - excess + excess.min(self.controller.limit().get() / 2)
    }

    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.ceiling = self.controller.charged().max(limit);
        self.handle(Event::LimitChanged {
            limit: ByteLimit::new(limit),
        });
    }

    fn handle(&mut self, event: Event) {
        self.expect_answer(&event);
        let before: Vec<_> = self.controller.all_figures().collect();
        let asker = key_of(&event);
        let mut out = Vec::new();
        self.controller.handle(event, &mut out);
        self.check_order(asker, &before, &out);
        for command in out {
            self.carry_out(command);
        }
        self.check();
    }

    fn expect_answer(&mut self, event: &Event) {
        let Some(node) = self
            .nodes
            .iter_mut()
            .find(|node| Some(node.key) == key_of(event))
        else {
            return;
        };
        match event {
            Event::Update { update, .. } => {
                (node.awaiting, node.destroying) = (false, false);
                if !node.dead {
                    node.ledger.report(update);
                }
            }
            Event::Connected { .. } => {
                node.connected = true;
                node.ledger.ask_back();
            }
            Event::Died { pool, .. } => node.ledger.die(pool),
            Event::DeadDestroyed { held_bytes, .. } => node.ledger.destroyed(*held_bytes),
            _ => {}
        }
    }

    fn carry_out(&mut self, command: Command) {
        let to = match &command {
            Command::Admit { key, .. }
            | Command::Refuse { key, .. }
            | Command::Await { key, .. } => *key,
            Command::Destroy { key, .. }
            | Command::DestroyDead { key, .. }
            | Command::DropDead { key } => *key,
        };
        let Some(node) = self.nodes.iter_mut().find(|node| node.key == to) else {
            panic!("{command:?} to an unknown process");
        };
        match &command {
            Command::Admit { allowance, .. } => {
                node.ledger.send(allowance.get());
                node.child = Some(Child::new(allowance.get(), PAGE));
                node.to_parent.push_back(Event::Connected { key: to });
            }
            Command::Refuse { .. } => {}
            Command::Await { allowance, .. } => {
                assert!(node.connected && !node.awaiting, "a second Await");
                assert_eq!(
                    allowance.get() % PAGE,
                    0,
                    "an allowance is a whole number of pages"
                );
                assert!(allowance.get() >= POLICY.floor, "below the floor");
                node.awaiting = true;
                node.ledger.send(allowance.get());
                node.to_child.push_back(command);
            }
            Command::Destroy { .. } => {
                assert!(
                    node.connected && !node.destroying && !node.dead,
                    "a second Destroy"
                );
                node.destroying = true;
                node.ledger.ask_back();
                node.to_child.push_back(command);
            }
            Command::DestroyDead { .. } | Command::DropDead { .. } => {
                assert!(node.dead && node.jobs.is_empty(), "a second job");
                node.ledger.ask_back();
                node.jobs.push_back(command);
            }
        }
    }

    /// Checks that no process that could be asked keeps older data than the destroyed data.
    fn check_order(
        &self,
        asker: Option<PoolId>,
        before: &[(PoolId, ProcessFigures)],
        out: &[Command],
    ) {
        let youngest = out.iter().filter_map(|command| match command {
            Command::Destroy { at_or_before, .. } | Command::DestroyDead { at_or_before, .. } => {
                Some(*at_or_before)
            }
            _ => None,
        });
        let youngest = youngest.max().unwrap_or(Timestamp::ZERO);
        for (key, _) in before
            .iter()
            .filter(|(key, figures)| figures.can_be_asked && Some(*key) != asker)
        {
            let Some(after) = self.controller.figures(*key) else {
                continue;
            };
            let spared = after.dead || after.allowance.get() > POLICY.floor;
            let older = after.oldest.is_some_and(|oldest| oldest < youngest);
            assert!(
                !(spared && older),
                "{key} keeps {:?}, destroyed up to {youngest:?}",
                after.oldest
            );
        }
    }

    /// Checks the invariants that hold after every step.
    fn check(&mut self) {
        let counted = self.counted();
        self.ceiling = self.ceiling.min(counted).max(self.controller.limit().get());
        assert!(
            counted <= self.ceiling,
            "{counted} bytes charged, {} allowed",
            self.ceiling
        );
        let sum: u64 = self
            .controller
            .all_figures()
            .map(|(_, all)| all.charged + all.excess)
            .sum();
        assert_eq!(sum, self.controller.charged(), "the accounts do not add up");
        for node in &self.nodes {
            let Some(child) = &node.child else { continue };
            let figures = self.controller.figures(node.key).unwrap();
            node.ledger.check(&figures);
            assert!(
                child.held() <= figures.charged,
                "{node:?} holds more than {figures:?}"
            );
            assert!(
                node.dead || may_hold(node, child) <= figures.charged,
                "{node:?} {figures:?}"
            );
        }
    }

    /// Delivers all messages that are under way, while no process records.
    pub(crate) fn settle(&mut self) {
        for index in 0..self.nodes.len() {
            self.freeze(index, false);
        }
        for _ in 0..10_000 {
            if !self.is_anything_under_way() {
                return self.check_settled();
            }
            for index in 0..self.nodes.len() {
                self.deliver_to_child(index);
                self.obey(index);
                self.deliver_to_parent(index);
                self.work(index);
            }
        }
        panic!("it does not settle: {self:?}");
    }

    fn is_anything_under_way(&self) -> bool {
        self.nodes.iter().any(|node| {
            let unseen = node
                .child
                .as_ref()
                .is_some_and(|child| !node.dead && child.received != child.allowance);
            unseen
                || !(node.to_child.is_empty() && node.to_parent.is_empty() && node.jobs.is_empty())
        })
    }

    fn check_settled(&self) {
        for node in &self.nodes {
            let Some(child) = &node.child else { continue };
            let figures = self.controller.figures(node.key).unwrap();
            assert_eq!(figures.owed(), 0, "{node:?} owes");
            assert_eq!(figures.held, child.held(), "{node:?}");
            assert_eq!(figures.released, child.released_bytes(), "{node:?}");
            assert!(!node.dead || figures.charged == child.held());
            let could_give =
                figures.can_be_asked && (figures.allowance.get() > POLICY.floor || figures.dead);
            let gives = figures.oldest.is_some() || figures.held < figures.allowance.get();
            assert!(
                self.counted() <= self.controller.limit().get() || !(could_give && gives),
                "over, and {figures:?}"
            );
        }
    }
}

/// The maximum number of bytes that a process may hold: the largest allowance that it obeys, has
/// received, or that is on its way.
fn may_hold(node: &Node, child: &Child) -> u64 {
    let coming = node.to_child.iter().map(|command| match command {
        Command::Await { allowance, .. } => allowance.get(),
        _ => 0,
    });
    coming
        .max()
        .unwrap_or(0)
        .max(child.received)
        .max(child.allowance)
}

fn key_of(event: &Event) -> Option<PoolId> {
    match event {
        Event::Join { key } | Event::Connected { key } | Event::Disconnected { key } => Some(*key),
        Event::Update { key, .. } | Event::Died { key, .. } | Event::DeadDestroyed { key, .. } => {
            Some(*key)
        }
        Event::Forgotten { key } | Event::Occupies { key, .. } => Some(*key),
        Event::LimitChanged { .. } | Event::Overdue => None,
    }
}
