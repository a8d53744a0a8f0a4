//! A simulation of processes that record at constant rates. It measures the peak memory and the
//! spans of time that the processes keep.
//!
//! Used by `steady` and `crowd`, and by `figures -- flood` of `integration-tests`. A message takes
//! 1 to 3 ms of simulated time. The spans are compared during the last third of the simulation.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{Command, Controller, Event, Policy};

use super::child::{Child, key};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) limit: u64,
    /// The rate of each process in bytes per second.
    pub(crate) rates: Vec<u64>,
    /// The chunk size of a process with this rate.
    pub(crate) chunk: fn(u64) -> u64,
    pub(crate) seconds: u64,
    pub(crate) bursts: bool,
    /// The time in nanoseconds within which all processes start.
    pub(crate) starts_within: u64,
    pub(crate) policy: Policy,
    /// Whether the outcome lists all events.
    pub(crate) keep_events: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) peak: u64,
    pub(crate) in_use: f64,
    /// The median of the shortest span divided by the longest span.
    pub(crate) spread: f64,
    pub(crate) dropped: u64,
    pub(crate) messages: u64,
    /// The maximum number of commands for one event.
    pub(crate) most_commands: usize,
    pub(crate) refused: u64,
    pub(crate) events: u64,
    pub(crate) recorded: u64,
    pub(crate) handle_ns: u128,
    /// The events that the controller received, if the scenario requests them.
    pub(crate) told: Vec<Event>,
}

impl Outcome {
    pub(crate) fn messages_per_mib(&self) -> f64 {
        self.messages as f64 / (self.recorded as f64 / MIB as f64)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Join(usize),
    Full(usize),
    ToParent(usize),
    Await(usize, u64),
    Destroy(usize, u64),
}

struct World {
    scenario: Scenario,
    controller: Controller,
    children: Vec<Option<Child>>,
    on_the_way: Vec<VecDeque<Update>>,
    queue: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    serial: u64,
    random: u64,
    held: u64,
    outcome: Outcome,
    spreads: Vec<f64>,
}

/// The chunk size that a manager chooses that doubles the chunks of busy threads: a power of two
/// from 4 KiB to 64 KiB that lasts about 2 ms.
pub(crate) fn fitting(rate: u64) -> u64 {
    (rate / 512).next_power_of_two().clamp(4 * 1024, 64 * 1024)
}

/// Ten thousand processes: one in ten is busy, one in a hundred is very busy.
pub(crate) fn crowd() -> Scenario {
    let rate = |index| match index % 100 {
        0 => MIB,
        1..10 => 64 * 1024,
        _ => 2 * 1024,
    };
    Scenario {
        limit: 512 * MIB,
        rates: (0..10_000).map(rate).collect(),
        chunk: fitting,
        seconds: 10,
        bursts: false,
        starts_within: 1_000 * MS,
        policy: Policy::new(3 * 4096, 4096),
        keep_events: false,
    }
}

pub(crate) fn simulate(scenario: Scenario) -> Outcome {
    let mut world = World::new(scenario);
    let end = world.scenario.seconds * 1_000 * MS;
    while let Some(Reverse((now, _, happening))) = world.queue.pop() {
        if now > end {
            break;
        }
        world.step(now, happening);
    }
    world.finish()
}

impl World {
    fn new(scenario: Scenario) -> Self {
        let controller = Controller::new(ByteLimit::new(scenario.limit), scenario.policy);
        let mut world = Self {
            controller,
            children: Vec::new(),
            on_the_way: Vec::new(),
            queue: BinaryHeap::new(),
            serial: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            held: 0,
            outcome: Outcome::default(),
            spreads: Vec::new(),
            scenario,
        };
        for index in 0..world.scenario.rates.len() {
            world.children.push(None);
            world.on_the_way.push(VecDeque::new());
            let start = world.uniform(0.0, world.scenario.starts_within as f64) as u64;
            world.at(start, Happening::Join(index));
        }
        world
    }

    fn join(&mut self, now: u64, index: usize) {
        self.handle(now, Event::Join { key: key_of(index) });
        if self.children[index].is_some() {
            self.handle(now, Event::Connected { key: key_of(index) });
            self.at(now, Happening::Full(index));
        } else {
            self.at(now + 5 * MS, Happening::Join(index));
        }
    }

    fn admit(&mut self, index: usize, allowance: u64) {
        let child = Child::new(allowance, self.scenario.policy.page);
        self.held += child.held();
        self.children[index] = Some(child);
    }

    fn uniform(&mut self, low: f64, high: f64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        low + (high - low) * (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.serial += 1;
        self.queue.push(Reverse((time, self.serial, happening)));
    }

    fn step(&mut self, now: u64, happening: Happening) {
        match happening {
            Happening::Join(index) => self.join(now, index),
            Happening::Full(index) => self.full(now, index),
            Happening::ToParent(index) => {
                let update = self.on_the_way[index].pop_front().unwrap();
                self.handle(
                    now,
                    Event::Update {
                        key: key_of(index),
                        update,
                    },
                );
            }
            Happening::Await(index, allowance) => self.with_child(now, index, |child| {
                child.on_await(ByteLimit::new(allowance));
                child.obey();
            }),
            Happening::Destroy(index, at_or_before) => {
                self.with_child(now, index, |child| {
                    child.on_destroy(Timestamp::from_raw(at_or_before))
                });
            }
        }
        self.outcome.peak = self.outcome.peak.max(self.held);
        assert!(self.held <= self.scenario.limit, "{} bytes held", self.held);
        assert!(
            self.controller.charged() <= self.scenario.limit
                && self.held <= self.controller.charged()
        );
    }

    fn full(&mut self, now: u64, index: usize) {
        let rate = self.scenario.rates[index];
        let chunk = (self.scenario.chunk)(rate);
        self.with_child(now, index, |child| child.fill(now, chunk));
        self.outcome.recorded += chunk;
        let burst = if self.scenario.bursts {
            self.uniform(0.2, 1.8)
        } else {
            1.0
        };
        let period = chunk as f64 / (rate as f64 * burst) * self.uniform(0.9, 1.1) * 1e9;
        self.at(now + period as u64, Happening::Full(index));
        if now > self.scenario.seconds * 700 * MS && self.serial.is_multiple_of(16) {
            self.measure(now);
        }
    }

    fn with_child(&mut self, now: u64, index: usize, act: impl FnOnce(&mut Child)) {
        let Some(child) = &mut self.children[index] else {
            return;
        };
        self.held -= child.held();
        act(child);
        self.held += child.held();
        if let Some(update) = child.answer() {
            self.on_the_way[index].push_back(update);
            self.outcome.messages += 1;
            let delay = self.uniform(1.0 * MS as f64, 3.0 * MS as f64) as u64;
            self.at(now + delay, Happening::ToParent(index));
        }
    }

    fn handle(&mut self, now: u64, event: Event) {
        if self.scenario.keep_events {
            self.outcome.told.push(event.clone());
        }
        let mut out = Vec::new();
        #[allow(clippy::disallowed_methods)] // measures time for a report, not for a deadline
        let start = std::time::Instant::now();
        self.controller.handle(event, &mut out);
        self.outcome.handle_ns += start.elapsed().as_nanos();
        self.outcome.events += 1;
        self.outcome.most_commands = self.outcome.most_commands.max(out.len());
        for command in out {
            self.outcome.messages += 1;
            match command {
                Command::Await { key, allowance } => {
                    assert_eq!(
                        allowance.get() % 4096,
                        0,
                        "an allowance is a whole number of pages"
                    );
                    self.at(
                        now + 2 * MS,
                        Happening::Await(index_of(key), allowance.get()),
                    );
                }
                Command::Destroy { key, at_or_before } => {
                    self.at(
                        now + 2 * MS,
                        Happening::Destroy(index_of(key), at_or_before.raw()),
                    );
                }
                Command::Admit { key, allowance } => self.admit(index_of(key), allowance.get()),
                Command::Refuse { .. } => self.outcome.refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }

    fn measure(&mut self, now: u64) {
        let spans = self
            .children
            .iter()
            .flatten()
            .filter(|child| child.released.len() > 1);
        let spans: Vec<_> = spans.map(|child| now - child.released[0].opened).collect();
        if let (Some(least), Some(most)) = (spans.iter().min(), spans.iter().max()) {
            self.spreads.push(*least as f64 / *most as f64);
        }
    }

    fn finish(mut self) -> Outcome {
        self.spreads.sort_by(f64::total_cmp);
        self.outcome.spread = self
            .spreads
            .get(self.spreads.len() / 2)
            .copied()
            .unwrap_or(0.0);
        self.outcome.in_use = self.held as f64 / self.scenario.limit as f64;
        self.outcome.dropped = self
            .children
            .iter()
            .flatten()
            .map(|child| child.dropped)
            .sum();
        self.outcome
    }
}

fn key_of(index: usize) -> PoolId {
    key(u32::try_from(index).unwrap(), 1)
}

fn index_of(key: PoolId) -> usize {
    usize::try_from(key.get() & u128::from(u32::MAX)).unwrap()
}
