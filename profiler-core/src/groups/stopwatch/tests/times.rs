//! Wall time, processor time and blocking time of groups: rows P4 to P6 and P15 of
//! `docs/features.md`.

use proptest::prelude::*;

use super::{ALL, Id, MS, Owned, Probes, Reading, Thread, unregistered};

#[test]
fn p4_sleeping_is_wall_time_and_spinning_is_processor_time() {
    let mut thread = Thread::new(ALL);
    let sleeps = unregistered("sleeps");
    let spins = unregistered("spins");
    let owned = thread.enter(&[sleeps]);
    thread.pass(200 * MS, MS);
    thread.exit(owned);
    thread.run(&[spins], 200 * MS);
    let sleeps = thread.totals("sleeps");
    let spins = thread.totals("spins");
    assert_eq!(
        (sleeps.wall_ns, sleeps.cpu_ns, sleeps.off_cpu_ns),
        (200 * MS, MS, 199 * MS)
    );
    assert_eq!(
        (spins.wall_ns, spins.cpu_ns, spins.off_cpu_ns),
        (200 * MS, 200 * MS, 0)
    );
}

#[test]
fn p4_without_the_processor_clock_only_wall_time_is_reported() {
    let mut thread = Thread::new(Probes::JANK);
    thread.run(&[unregistered("a")], 7);
    let totals = thread.totals("a");
    assert_eq!(
        (
            totals.wall_ns,
            totals.measured_ns,
            totals.cpu_ns,
            totals.off_cpu_ns
        ),
        (7, 0, 0, 0)
    );
    assert_eq!(thread.clock.cpu_reads.get(), 0);
}

#[test]
fn p5_processor_time_is_divided_by_wall_time_and_read_twice_per_iteration() {
    let mut thread = Thread::new(ALL);
    let outer = unregistered("outer");
    let a = unregistered("a");
    let b = unregistered("b");
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
                // One group at a time: the groups exclude each other.
                Step::Enter(index) if owned.is_none() => owned = Some(thread.enter(&[groups[index]])),
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
    thread.clock.now.set(Reading {
        ticks: 1,
        processor: 0,
    });
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.discarded, totals.moved), (1, 1, 0));
    assert_eq!(
        (totals.wall_ns, totals.cpu_ns, totals.runs, totals.durations),
        (0, 0, 0, [0; 10])
    );
    thread.run(&[group], 8);
    assert_eq!(thread.totals("a").wall_ns, 8, "the next run counts");
}

#[test]
fn p6_another_processor_contributes_nothing_and_is_counted() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    thread.spin(10 * MS);
    let now = thread.clock.now.get();
    thread.clock.now.set(Reading {
        processor: 3,
        ..now
    });
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!((totals.ticks, totals.moved, totals.discarded), (1, 1, 0));
    assert_eq!((totals.wall_ns, totals.cpu_ns), (0, 0));
}

#[test]
fn p15_blocked_time_is_blocking_time_and_not_processor_time() {
    let mut thread = Thread::new(ALL);
    let works = unregistered("works");
    let waits = unregistered("waits");
    let around = thread.enter(&[unregistered("outer")]);
    thread.run(&[works], 10 * MS);
    let owned = thread.enter(&[waits]);
    thread.blocked(100 * MS);
    thread.exit(owned);
    thread.exit(around);
    let works = thread.totals("works");
    let waits = thread.totals("waits");
    assert_eq!(
        (waits.blocking_ns, waits.cpu_ns, waits.off_cpu_ns),
        (100 * MS, 0, 100 * MS)
    );
    assert_eq!(
        (works.blocking_ns, works.cpu_ns),
        (0, 10 * MS),
        "it gets all of the processor time"
    );
    let outer = thread.totals("outer");
    assert_eq!(
        (outer.blocking_ns, outer.cpu_ns, outer.wall_ns),
        (100 * MS, 10 * MS, 110 * MS)
    );
}

#[test]
fn p15_waits_inside_each_other_count_once() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    let waits = thread.wait(&[unregistered("disk")]);
    thread.pass(3, 0);
    thread.blocked(4);
    thread.pass(5, 0);
    thread.exit(waits);
    thread.exit(owned);
    assert_eq!(
        ["a", "disk"].map(|name| thread.totals(name).blocking_ns),
        [12, 12]
    );
}

#[test]
fn p15_a_wait_for_a_group_that_is_already_entered_is_blocking_time() {
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
    assert_eq!(
        (
            totals.ticks,
            totals.wall_ns,
            totals.cpu_ns,
            totals.blocking_ns
        ),
        (1, 50, 20, 30)
    );
}

#[test]
fn p15_a_wait_without_a_group_of_its_own_is_blocking_time_of_the_entered_groups() {
    let mut thread = Thread::new(ALL);
    let nothing = thread.wait(&[]);
    assert!(nothing.is_nothing(), "no group is entered");
    let owned = thread.enter(&[unregistered("a")]);
    thread.blocked(7);
    thread.exit(owned);
    assert_eq!(thread.totals("a").blocking_ns, 7);
}
