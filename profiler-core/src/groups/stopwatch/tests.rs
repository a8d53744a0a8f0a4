//! Tests of the stopwatch with an injected clock, so every number is exact.
//!
//! This file contains the clock, a thread with its cells, and the tests of entries and runs: rows
//! P1 to P3 and P9 of `docs/features.md`. `times` tests times, `loops` tests loops, and `guards`
//! tests unusual orders of guards.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::super::registered::model::unregistered;
use super::*;
use crate::pool::live::GroupCell;
use crate::reader::groups::GroupTotals;

mod guards;
mod loops;
mod times;

type Id = &'static Registered;

const MS: u64 = 1_000_000;
const ALL: Probes = Probes::ALL;

/// A clock that tests set. A tick is a nanosecond.
#[derive(Debug, Default)]
struct ManualClock {
    now: Cell<Reading>,
    cpu: Cell<u64>,
    reads: Cell<u64>,
    cpu_reads: Cell<u64>,
    /// The reading up to which the clock is exact. Nanoseconds of later readings are doubled.
    exact: Cell<Option<u64>>,
}

impl Clock for ManualClock {
    fn read(&self) -> Reading {
        self.reads.set(self.reads.get() + 1);
        self.now.get()
    }

    fn cpu_ns(&self) -> Option<u64> {
        self.cpu_reads.set(self.cpu_reads.get() + 1);
        Some(self.cpu.get())
    }

    fn ns_of(&self, ticks: u64) -> u64 {
        let is_exact = self
            .exact
            .get()
            .is_none_or(|exact| exact >= self.now.get().ticks);
        if is_exact { ticks } else { 2 * ticks }
    }

    fn session_ns(&self, reading: Reading) -> u64 {
        self.ns_of(reading.ticks)
    }

    fn keep_exact(&self, now: Reading) {
        self.exact.set(self.exact.get().map(|_| now.ticks));
    }
}

/// A thread with its clock and with cells like those of a pool.
struct Thread {
    watch: Stopwatch,
    clock: ManualClock,
    probes: Probes,
    implied: [Id; 2],
    cells: RefCell<BTreeMap<String, GroupCell>>,
    /// Number of iterations that reported something.
    commits: u64,
}

impl Thread {
    fn new(probes: Probes) -> Self {
        let clock = ManualClock::default();
        clock.now.set(Reading {
            ticks: 5,
            processor: 0,
        });
        let implied = [unregistered("thread"), unregistered("process")];
        Self {
            watch: Stopwatch::new(),
            clock,
            probes,
            implied,
            cells: RefCell::default(),
            commits: 0,
        }
    }

    fn enter(&mut self, groups: &[Id]) -> Owned {
        self.enter_and(groups, false)
    }

    fn wait(&mut self, groups: &[Id]) -> Owned {
        self.enter_and(groups, true)
    }

    fn enter_and(&mut self, groups: &[Id], waits: bool) -> Owned {
        let implied = self.implied.map(Some);
        self.watch.enter(
            &self.clock,
            self.probes,
            || implied,
            groups.iter().copied(),
            waits,
        )
    }

    fn exit(&mut self, owned: Owned) {
        if self.watch.exit(&self.clock, owned) == Exit::Outermost {
            self.turn();
        }
    }

    fn turn(&mut self) {
        let cells = &self.cells;
        let mut has_reported = false;
        self.watch.settle(&self.clock, self.probes, |group, run| {
            has_reported = true;
            let mut cells = cells.borrow_mut();
            cells
                .entry(group.name().to_owned())
                .or_insert_with(GroupCell::zeroed)
                .commit(run);
        });
        self.commits += u64::from(has_reported);
    }

    fn blocked(&mut self, ns: u64) {
        let waits = self.wait(&[]);
        self.pass(ns, 0);
        self.exit(waits);
    }

    /// Advances time by `wall`. The thread runs on a processor for `cpu` of it.
    fn pass(&self, wall: u64, cpu: u64) {
        let now = self.clock.now.get();
        self.clock.now.set(Reading {
            ticks: now.ticks + wall,
            ..now
        });
        self.clock.cpu.set(self.clock.cpu.get() + cpu);
    }

    fn spin(&self, ns: u64) {
        self.pass(ns, ns);
    }

    fn run(&mut self, groups: &[Id], ns: u64) {
        let owned = self.enter(groups);
        self.spin(ns);
        self.exit(owned);
    }

    fn totals(&self, name: &str) -> GroupTotals {
        self.cells
            .borrow()
            .get(name)
            .map_or_else(GroupTotals::nothing, |cell| {
                GroupTotals::parse(&cell.bytes())
            })
    }
}

#[test]
fn p1_work_adds_the_same_time_to_every_group_it_belongs_to() {
    let mut thread = Thread::new(ALL);
    let plugin = unregistered("plugin A");
    let tenant = unregistered("tenant 7");
    let owned = thread.enter(&[plugin, tenant]);
    thread.pass(5 * MS, 3 * MS);
    thread.exit(owned);
    for name in ["plugin A", "tenant 7", "thread", "process"] {
        let totals = thread.totals(name);
        assert_eq!(
            (totals.ticks, totals.wall_ns, totals.cpu_ns),
            (1, 5 * MS, 3 * MS),
            "{name}"
        );
        assert_eq!((totals.off_cpu_ns, totals.runs), (2 * MS, 1), "{name}");
    }
    thread.run(&[plugin], MS);
    let process = thread.totals("process");
    for name in ["plugin A", "tenant 7"] {
        let totals = thread.totals(name);
        assert!(
            process.wall_ns >= totals.wall_ns && process.cpu_ns >= totals.cpu_ns,
            "{name}"
        );
    }
    assert_eq!(process.wall_ns, 6 * MS);
}

#[test]
fn p1_nested_guards_belong_to_all_groups_around_them() {
    let mut thread = Thread::new(ALL);
    let outer = unregistered("outer");
    let inner = unregistered("inner");
    let first = thread.enter(&[outer]);
    thread.spin(2);
    let second = thread.enter(&[inner]);
    thread.spin(3);
    thread.exit(second);
    thread.spin(5);
    thread.exit(first);
    let times = ["outer", "inner", "process"].map(|name| thread.totals(name).wall_ns);
    assert_eq!(times, [10, 3, 10]);
}

#[test]
fn p2_entering_a_group_inside_of_itself_counts_once() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    let outer = thread.enter(&[group]);
    thread.spin(10);
    let reads = thread.clock.reads.get();
    let inner = thread.enter(&[group]);
    thread.spin(10);
    thread.exit(inner);
    assert_eq!(thread.clock.reads.get(), reads, "no clock is read");
    thread.spin(10);
    thread.exit(outer);
    let totals = thread.totals("a");
    assert_eq!(
        (totals.wall_ns, totals.cpu_ns, totals.ticks, totals.runs),
        (30, 30, 1, 1)
    );
}

#[test]
fn p3_every_entry_from_outside_is_a_tick_even_if_nothing_is_measured() {
    let mut thread = Thread::new(Probes::NONE);
    let group = unregistered("a");
    for _ in 0..1000 {
        let outer = thread.enter(&[group]);
        let inner = thread.enter(&[group]);
        thread.spin(3);
        thread.exit(inner);
        thread.exit(outer);
    }
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.wall_ns, totals.runs), (1000, 0, 0));
    assert_eq!(
        (thread.clock.reads.get(), thread.clock.cpu_reads.get()),
        (0, 0),
        "no clock is read"
    );
}

#[test]
fn p3_a_group_entered_twice_in_one_iteration_has_two_ticks_and_one_run() {
    let mut thread = Thread::new(ALL);
    let outer = unregistered("outer");
    let inner = unregistered("inner");
    let around = thread.enter(&[outer]);
    thread.run(&[inner], 4);
    thread.run(&[inner], 5);
    thread.exit(around);
    let totals = thread.totals("inner");
    assert_eq!((totals.ticks, totals.runs, totals.wall_ns), (2, 1, 9));
}

#[test]
fn p9_runs_of_known_lengths_fill_the_buckets_exactly() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    for us in [500, 3_000, 70_000, 600_000] {
        thread.run(&[group], us * 1000);
    }
    assert_eq!(thread.totals("a").durations, [3, 3, 2, 2, 2, 2, 2, 1, 1, 1]);
    thread.run(&[group], MS);
    assert_eq!(
        thread.totals("a").durations[0],
        3,
        "exactly 1 ms is not more than 1 ms"
    );
    thread.run(&[group], MS + 1000);
    assert_eq!(thread.totals("a").durations[0], 4);
}
