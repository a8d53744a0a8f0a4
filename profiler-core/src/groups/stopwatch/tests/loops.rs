//! Nested loops, custom loops and the ends of iterations: rows P7 and P8 of `docs/features.md`.

use super::{ALL, LOOPS, MS, Probes, Thread, unregistered};

#[test]
fn p7_a_nested_loop_is_not_measured_by_the_outer_group_and_is_counted() {
    let mut thread = Thread::new(ALL);
    let outer = unregistered("outer");
    let inner = unregistered("inner");
    let around = thread.enter(&[outer]);
    thread.spin(10 * MS);
    let serial = thread.watch.begin_nested(&thread.clock).unwrap();
    thread.run(&[inner], 30 * MS);
    thread.run(&[outer], 5 * MS); // the same group again, in an iteration of its own
    assert_eq!(
        thread.totals("inner").wall_ns,
        30 * MS,
        "iterations of the inner loop are reported at once"
    );
    assert!(thread.watch.is_in(serial));
    thread.watch.end_nested(&thread.clock);
    assert!(!thread.watch.is_in(serial));
    thread.spin(2 * MS);
    thread.exit(around);
    let totals = thread.totals("outer");
    assert_eq!(
        (totals.wall_ns, totals.cpu_ns),
        (17 * MS, 17 * MS),
        "10 + 2 outside, 5 inside"
    );
    assert_eq!((totals.ticks, totals.runs, totals.nested), (2, 2, 1));
    assert_eq!(
        thread.totals("process").wall_ns,
        47 * MS,
        "nothing is counted twice"
    );
    assert_eq!(thread.totals("inner").nested, 0);
}

#[test]
fn p7_a_guard_dropped_in_another_loop_changes_only_its_own_loop() {
    let mut thread = Thread::new(ALL);
    let outer = unregistered("outer");
    let inner = unregistered("inner");
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
    assert_eq!(
        (
            thread.totals("outer").wall_ns,
            thread.totals("inner").wall_ns
        ),
        (0, 4)
    );
    thread.run(&[outer], 3);
    assert_eq!(thread.totals("outer").wall_ns, 3);
}

#[test]
fn p7_the_depth_of_nested_loops_is_bounded() {
    let mut thread = Thread::new(ALL);
    let begun = (0..100)
        .map_while(|_| thread.watch.begin_nested(&thread.clock))
        .count();
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
    assert_eq!(
        (thread.totals("a").ticks, thread.commits),
        (0, 0),
        "the iteration has not ended"
    );
    thread.turn();
    thread.turn();
    let totals = thread.totals("a");
    assert_eq!(
        (totals.ticks, totals.wall_ns, totals.runs, thread.commits),
        (2, 11, 1, 1)
    );
    thread.watch.end_custom(serial);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 2, "now the last guard ends the iteration");
}

#[test]
fn p8_a_loop_stays_custom_until_its_own_last_custom_guard_ends_at_any_depth() {
    let mut thread = Thread::new(ALL);
    let outer = thread.watch.begin_custom();
    let group = unregistered("a");
    thread.watch.begin_nested(&thread.clock).unwrap();
    let nested = thread.watch.begin_custom();
    assert!(thread.watch.is_innermost(nested) && !thread.watch.is_innermost(outer));
    thread.watch.end_custom(outer);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 0, "the nested loop is still custom");
    thread.watch.begin_custom();
    thread.watch.end_custom(nested);
    thread.run(&[group], 5);
    assert_eq!(thread.commits, 0, "its other guard keeps it custom");
    thread.turn();
    thread.watch.end_nested(&thread.clock);
    thread.watch.end_custom(nested);
    thread.run(&[group], 5);
    assert_eq!(
        (thread.commits, thread.totals("a").wall_ns),
        (2, 15),
        "the outer loop is no longer custom"
    );
}

#[test]
fn p8_an_end_inside_a_group_reports_a_run_and_the_group_stays_open() {
    let mut thread = Thread::new(ALL);
    let owned = thread.enter(&[unregistered("a")]);
    thread.spin(5);
    thread.turn();
    assert_eq!(
        (thread.totals("a").wall_ns, thread.totals("a").ticks),
        (5, 1)
    );
    thread.spin(7);
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!(
        (totals.wall_ns, totals.ticks, totals.runs),
        (12, 1, 2),
        "entered once, two runs"
    );
}

#[test]
fn p8_a_probe_that_changes_during_an_iteration_contributes_nothing() {
    for (before, after) in [(Probes::NONE, ALL), (ALL, Probes::NONE)] {
        let mut thread = Thread::new(before);
        let owned = thread.enter(&[unregistered("a")]);
        thread.spin(5);
        thread.probes = after;
        thread.exit(owned);
        let totals = thread.totals("a");
        assert_eq!(
            (totals.ticks, totals.wall_ns, totals.cpu_ns, totals.runs),
            (1, 0, 0, 0)
        );
    }
}
