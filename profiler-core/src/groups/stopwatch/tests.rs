//! Rows P1 to P9 and P15 with an injected clock: every number is exact.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::group::model::unregistered;
use super::*;
use crate::pool::live::GroupCell;
use crate::reader::groups::GroupTotals;

mod guards;

type Id = &'static Registered;

const MS: u64 = 1_000_000;
const ALL: Probes = Probes::ALL;

/// A clock that tests set; a tick is a nanosecond.
#[derive(Debug, Default)]
struct Told {
    now: Cell<Reading>,
    cpu: Cell<u64>,
    reads: Cell<u64>,
    cpu_reads: Cell<u64>,
    /// The reading up to which the clock is exact; nanoseconds of a later reading are doubled.
    exact: Cell<Option<u64>>,
}

impl Clock for Told {
    fn read(&self) -> Reading {
        self.reads.set(self.reads.get() + 1);
        self.now.get()
    }

    fn cpu_ns(&self) -> Option<u64> {
        self.cpu_reads.set(self.cpu_reads.get() + 1);
        Some(self.cpu.get())
    }

    fn ns_of(&self, ticks: u64) -> u64 {
        let is_exact = self.exact.get().is_none_or(|exact| exact >= self.now.get().ticks);
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
    clock: Told,
    probes: Probes,
    implied: [Id; 2],
    cells: RefCell<BTreeMap<String, GroupCell>>,
    /// Number of iterations that reported something.
    commits: u64,
}

impl Thread {
    fn new(probes: Probes) -> Self {
        let clock = Told::default();
        clock.now.set(Reading { ticks: 5, processor: 0 });
        let implied = [unregistered("thread"), unregistered("process")];
        Self { watch: Stopwatch::new(), clock, probes, implied, cells: RefCell::default(), commits: 0 }
    }

    fn enter(&mut self, groups: &[Id]) -> Owned {
        self.enter_and(groups, false)
    }

    fn wait(&mut self, groups: &[Id]) -> Owned {
        self.enter_and(groups, true)
    }

    fn enter_and(&mut self, groups: &[Id], waits: bool) -> Owned {
        let implied = self.implied.map(Some);
        self.watch.enter(&self.clock, self.probes, || implied, groups.iter().copied(), waits)
    }

    fn exit(&mut self, owned: Owned) {
        if self.watch.exit(&self.clock, owned) == Exit::Outermost {
            self.turn();
        }
    }

    fn turn(&mut self) {
        let (all, mut told) = (&self.cells, false);
        self.watch.settle(&self.clock, self.probes, |group, run| {
            told = true;
            let mut all = all.borrow_mut();
            all.entry(group.name().to_owned()).or_insert_with(GroupCell::zeroed).commit(run);
        });
        self.commits += u64::from(told);
    }

    fn blocked(&mut self, ns: u64) {
        let waits = self.wait(&[]);
        self.pass(ns, 0);
        self.exit(waits);
    }

    /// Advances time by `wall`, of which the thread has a processor for `cpu`.
    fn pass(&self, wall: u64, cpu: u64) {
        let now = self.clock.now.get();
        self.clock.now.set(Reading { ticks: now.ticks + wall, ..now });
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
            .map_or_else(GroupTotals::nothing, |cell| GroupTotals::parse(&cell.bytes()))
    }
}

#[test]
fn p1_work_adds_the_same_time_to_every_group_it_belongs_to() {
    let mut thread = Thread::new(ALL);
    let (plugin, tenant) = (unregistered("plugin A"), unregistered("tenant 7"));
    let owned = thread.enter(&[plugin, tenant]);
    thread.pass(5 * MS, 3 * MS);
    thread.exit(owned);
    for name in ["plugin A", "tenant 7", "thread", "process"] {
        let totals = thread.totals(name);
        assert_eq!((totals.ticks, totals.wall_ns, totals.cpu_ns), (1, 5 * MS, 3 * MS), "{name}");
        assert_eq!((totals.off_cpu_ns, totals.runs), (2 * MS, 1), "{name}");
    }
    thread.run(&[plugin], MS);
    let process = thread.totals("process");
    for name in ["plugin A", "tenant 7"] {
        let totals = thread.totals(name);
        assert!(process.wall_ns >= totals.wall_ns && process.cpu_ns >= totals.cpu_ns, "{name}");
    }
    assert_eq!(process.wall_ns, 6 * MS);
}

#[test]
fn p1_nested_guards_belong_to_all_groups_around_them() {
    let mut thread = Thread::new(ALL);
    let (outer, inner) = (unregistered("outer"), unregistered("inner"));
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
    assert_eq!(thread.clock.reads.get(), reads, "and reads no clock");
    thread.spin(10);
    thread.exit(outer);
    let totals = thread.totals("a");
    assert_eq!((totals.wall_ns, totals.cpu_ns, totals.ticks, totals.runs), (30, 30, 1, 1));
}

#[test]
fn p3_every_entry_from_outside_is_a_tick_also_when_nothing_is_measured() {
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
    assert_eq!((thread.clock.reads.get(), thread.clock.cpu_reads.get()), (0, 0), "no clock is read");
}

#[test]
fn p3_a_group_entered_twice_in_one_iteration_has_two_ticks_and_one_run() {
    let mut thread = Thread::new(ALL);
    let (outer, inner) = (unregistered("outer"), unregistered("inner"));
    let around = thread.enter(&[outer]);
    thread.run(&[inner], 4);
    thread.run(&[inner], 5);
    thread.exit(around);
    let totals = thread.totals("inner");
    assert_eq!((totals.ticks, totals.runs, totals.wall_ns), (2, 1, 9));
}

#[test]
fn p4_sleeping_is_wall_time_and_spinning_is_processor_time() {
    let mut thread = Thread::new(ALL);
    let (sleeps, spins) = (unregistered("sleeps"), unregistered("spins"));
    let owned = thread.enter(&[sleeps]);
    thread.pass(200 * MS, MS);
    thread.exit(owned);
    thread.run(&[spins], 200 * MS);
    let (sleeps, spins) = (thread.totals("sleeps"), thread.totals("spins"));
    assert_eq!((sleeps.wall_ns, sleeps.cpu_ns, sleeps.off_cpu_ns), (200 * MS, MS, 199 * MS));
    assert_eq!((spins.wall_ns, spins.cpu_ns, spins.off_cpu_ns), (200 * MS, 200 * MS, 0));
}

#[test]
fn p4_without_the_processor_clock_wall_time_is_all_that_is_said() {
    let mut thread = Thread::new(Probes::JANK);
    thread.run(&[unregistered("a")], 7);
    let totals = thread.totals("a");
    assert_eq!((totals.wall_ns, totals.measured_ns, totals.cpu_ns, totals.off_cpu_ns), (7, 0, 0, 0));
    assert_eq!(thread.clock.cpu_reads.get(), 0);
}

#[test]
fn p5_processor_time_is_shared_out_by_time_and_read_twice_per_iteration() {
    let mut thread = Thread::new(ALL);
    let (outer, a, b) = (unregistered("outer"), unregistered("a"), unregistered("b"));
    let around = thread.enter(&[outer]);
    for _ in 0..10 {
        let owned = thread.enter(&[a]);
        thread.pass(3 * MS, MS);
        thread.exit(owned);
        let owned = thread.enter(&[b]);
        thread.pass(MS, MS);
        thread.exit(owned);
    }
    thread.exit(around);
    assert_eq!(thread.clock.cpu_reads.get(), 2);
    let cpu = ["outer", "a", "b"].map(|name| thread.totals(name).cpu_ns);
    assert_eq!(cpu, [20 * MS, 15 * MS, 5 * MS], "by share of ticks, 3 to 1");
}

/// A step of a thread in a property test.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(usize),
    Exit,
    Pass(u64, u64),
    ClockJumps(i64),
    Migrate(u32),
    Block(u64),
    Nested(u64),
    Turn,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..4_usize).prop_map(Step::Enter),
        Just(Step::Exit),
        (0..50_u64, 0..50_u64).prop_map(|(wall, cpu)| Step::Pass(wall, cpu)),
        (-200_i64..200).prop_map(Step::ClockJumps),
        (0..3_u32).prop_map(Step::Migrate),
        (0..50_u64).prop_map(Step::Block),
        (0..50_u64).prop_map(Step::Nested),
        Just(Step::Turn),
    ]
}

proptest! {
    #[test]
    fn p5_groups_that_exclude_each_other_never_get_more_than_the_thread_had(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut thread = Thread::new(ALL);
        thread.clock.now.set(Reading { ticks: 1 << 40, processor: 0 });
        let groups: [Id; 4] = ["a", "b", "c", "d"].map(unregistered);
        let mut owned: Option<Owned> = None;
        for step in steps {
            match step {
                // One at a time, because they exclude each other.
                Step::Enter(which) if owned.is_none() => owned = Some(thread.enter(&[groups[which]])),
                Step::Enter(_) => {}
                Step::Exit => owned.take().into_iter().for_each(|owned| thread.exit(owned)),
                Step::Pass(wall, cpu) => thread.pass(wall, cpu),
                Step::ClockJumps(by) => {
                    let now = thread.clock.now.get();
                    thread.clock.now.set(Reading { ticks: now.ticks.saturating_add_signed(by), ..now });
                }
                Step::Migrate(processor) => {
                    let now = thread.clock.now.get();
                    thread.clock.now.set(Reading { processor, ..now });
                }
                Step::Block(ns) => thread.blocked(ns),
                Step::Nested(ns) => {
                    let serial = thread.watch.begin_nested(&thread.clock).unwrap();
                    thread.run(&[groups[0]], ns);
                    assert!(thread.watch.is_in(serial));
                    thread.watch.end_nested(&thread.clock);
                }
                Step::Turn => thread.turn(),
            }
        }
        owned.into_iter().for_each(|owned| thread.exit(owned));
        let cpu = thread.clock.cpu.get();
        let shared: u64 = ["a", "b", "c", "d"].iter().map(|name| thread.totals(name).cpu_ns).sum();
        prop_assert!(shared <= cpu, "{shared} of {cpu}");
        for name in ["a", "b", "c", "d", "thread", "process"] {
            let totals = thread.totals(name);
            prop_assert!(totals.cpu_ns <= totals.wall_ns && totals.cpu_ns <= cpu, "{name}: {totals:?}");
            prop_assert!(totals.durations.is_sorted_by(|a, b| a >= b));
            prop_assert_eq!(totals.histogram.total(), totals.runs);
        }
    }
}

#[test]
fn p6_a_clock_that_goes_backwards_contributes_nothing_and_is_counted() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    let owned = thread.enter(&[group]);
    thread.clock.now.set(Reading { ticks: 1, processor: 0 });
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.discarded, totals.moved), (1, 1, 0));
    assert_eq!((totals.wall_ns, totals.cpu_ns, totals.runs, totals.durations), (0, 0, 0, [0; 10]));
    thread.run(&[group], 8);
    assert_eq!(thread.totals("a").wall_ns, 8, "the next one counts");
}

#[test]
fn p6_another_processor_contributes_nothing_and_is_counted() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    thread.spin(10 * MS);
    let now = thread.clock.now.get();
    thread.clock.now.set(Reading { processor: 3, ..now });
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.moved, totals.discarded), (1, 1, 0));
    assert_eq!((totals.wall_ns, totals.cpu_ns), (0, 0));
}

#[test]
fn p7_a_nested_loop_is_not_in_the_outer_measure_and_says_so() {
    let mut thread = Thread::new(ALL);
    let (outer, inner) = (unregistered("outer"), unregistered("inner"));
    let around = thread.enter(&[outer]);
    thread.spin(10 * MS);
    let serial = thread.watch.begin_nested(&thread.clock).unwrap();
    thread.run(&[inner], 30 * MS);
    thread.run(&[outer], 5 * MS); // the same group again, in an iteration of its own
    assert_eq!(thread.totals("inner").wall_ns, 30 * MS, "iterations of the inner loop are told at once");
    assert!(thread.watch.is_in(serial));
    thread.watch.end_nested(&thread.clock);
    assert!(!thread.watch.is_in(serial));
    thread.spin(2 * MS);
    thread.exit(around);
    let totals = thread.totals("outer");
    assert_eq!((totals.wall_ns, totals.cpu_ns), (17 * MS, 17 * MS), "10 + 2 outside, 5 inside");
    assert_eq!((totals.ticks, totals.runs, totals.nested), (2, 2, 1));
    assert_eq!(thread.totals("process").wall_ns, 47 * MS, "nothing twice");
    assert_eq!(thread.totals("inner").nested, 0);
}

#[test]
fn p7_guards_that_leave_the_wrong_loop_change_nothing_that_is_not_theirs() {
    let mut thread = Thread::new(ALL);
    let (outer, inner) = (unregistered("outer"), unregistered("inner"));
    let around = thread.enter(&[outer]);
    thread.watch.begin_nested(&thread.clock).unwrap();
    let inside = thread.enter(&[inner]);
    thread.spin(4);
    thread.exit(around); // out of order, while its loop is paused
    thread.turn();
    thread.watch.end_nested(&thread.clock);
    assert!(thread.watch.is_over());
    thread.turn();
    thread.spin(100);
    thread.exit(inside); // its loop is over
    assert_eq!((thread.totals("outer").wall_ns, thread.totals("inner").wall_ns), (0, 4));
    thread.run(&[outer], 3);
    assert_eq!(thread.totals("outer").wall_ns, 3);
}

#[test]
fn p7_loops_without_end_inside_each_other_are_bounded() {
    let mut thread = Thread::new(ALL);
    let begun = (0..100).map_while(|_| thread.watch.begin_nested(&thread.clock)).count();
    assert_eq!(begun, LOOPS - 1);
    thread.run(&[unregistered("a")], 5);
    (0..begun).for_each(|_| thread.watch.end_nested(&thread.clock));
    assert_eq!(thread.totals("a").wall_ns, 5);
}

#[test]
fn p8_totals_change_only_at_the_end_of_an_iteration_and_two_ends_tell_once() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    let serial = thread.watch.begin_custom();
    thread.run(&[group], 5);
    thread.run(&[group], 6);
    assert_eq!((thread.totals("a").ticks, thread.commits), (0, 0), "the turn is not over");
    thread.turn();
    thread.turn();
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.wall_ns, totals.runs, thread.commits), (2, 11, 1, 1));
    thread.watch.end_custom(serial);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 2, "now the last guard ends it");
}

#[test]
fn p8_a_custom_loop_ends_as_that_loop_also_from_inside_of_a_nested_one_and_with_the_last_of_its_guards() {
    let mut thread = Thread::new(ALL);
    let (outer, group) = (thread.watch.begin_custom(), unregistered("a"));
    thread.watch.begin_nested(&thread.clock).unwrap();
    let nested = thread.watch.begin_custom();
    assert!(thread.watch.is_innermost(nested) && !thread.watch.is_innermost(outer));
    thread.watch.end_custom(outer);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 0, "the nested loop is custom still");
    thread.watch.begin_custom();
    thread.watch.end_custom(nested);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 0, "by its other guard");
    thread.turn();
    thread.watch.end_nested(&thread.clock);
    thread.watch.end_custom(nested);
    thread.run(&[group], 5);
    assert_eq!((thread.commits, thread.totals("a").wall_ns), (2, 15), "the outer loop is not");
}

#[test]
fn p8_an_end_inside_of_a_group_tells_what_was_done_and_goes_on() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    thread.spin(5);
    thread.turn();
    assert_eq!((thread.totals("a").wall_ns, thread.totals("a").ticks), (5, 1));
    thread.spin(7);
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.wall_ns, totals.ticks, totals.runs), (12, 1, 2), "entered once, two runs");
}

#[test]
fn p8_a_probe_that_changes_on_the_way_contributes_nothing() {
    for (before, after) in [(Probes::NONE, ALL), (ALL, Probes::NONE)] {
        let mut thread = Thread::new(before);
        let owned = thread.enter(&[unregistered("a")]);
        thread.spin(5);
        thread.probes = after;
        thread.exit(owned);
        let totals = thread.totals("a");
        assert_eq!((totals.ticks, totals.wall_ns, totals.cpu_ns, totals.runs), (1, 0, 0, 0));
    }
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
    assert_eq!(thread.totals("a").durations[0], 3, "exactly 1 ms is not more than 1 ms");
    thread.run(&[group], MS + 1000);
    assert_eq!(thread.totals("a").durations[0], 4);
}

#[test]
fn p15_blocked_time_is_blocking_time_and_not_processor_time() {
    let mut thread = Thread::new(ALL);
    let (works, waits) = (unregistered("works"), unregistered("waits"));
    let around = thread.enter(&[unregistered("outer")]);
    thread.run(&[works], 10 * MS);
    let owned = thread.enter(&[waits]);
    thread.blocked(100 * MS);
    thread.exit(owned);
    thread.exit(around);
    let (works, waits) = (thread.totals("works"), thread.totals("waits"));
    assert_eq!((waits.blocking_ns, waits.cpu_ns, waits.off_cpu_ns), (100 * MS, 0, 100 * MS));
    assert_eq!((works.blocking_ns, works.cpu_ns), (0, 10 * MS), "the processor time is all its");
    let outer = thread.totals("outer");
    assert_eq!((outer.blocking_ns, outer.cpu_ns, outer.wall_ns), (100 * MS, 10 * MS, 110 * MS));
}

#[test]
fn p15_waits_inside_of_each_other_count_once() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    let waits = thread.wait(&[unregistered("disk")]);
    thread.pass(3, 0);
    thread.blocked(4);
    thread.pass(5, 0);
    thread.exit(waits);
    thread.exit(owned);
    assert_eq!(["a", "disk"].map(|name| thread.totals(name).blocking_ns), [12, 12]);
}

#[test]
fn p15_a_wait_for_what_is_entered_already_is_blocking_time() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    let owned = thread.enter(&[group]);
    thread.spin(10);
    let waits = thread.wait(&[group]);
    thread.pass(30, 0);
    thread.exit(waits);
    thread.spin(10);
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.wall_ns, totals.cpu_ns, totals.blocking_ns), (1, 50, 20, 30));
}

#[test]
fn p15_a_wait_for_what_finds_no_group_is_blocking_time_of_the_others() {
    let mut thread = Thread::new(ALL);
    let nothing = thread.wait(&[]);
    assert!(nothing.is_nothing(), "nobody waits");
    let owned = thread.enter(&[unregistered("a")]);
    thread.blocked(7);
    thread.exit(owned);
    assert_eq!(thread.totals("a").blocking_ns, 7);
}
