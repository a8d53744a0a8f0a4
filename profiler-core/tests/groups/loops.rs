//! Custom loops and nested loops in a real session: rows P7 and P8 of `docs/features.md`.

use std::time::{Duration, Instant};

use profiler_core::group;
use profiler_core::groups::{GroupKind, Probes, custom_loop, nested_loop};
use test_support::own_process;

use super::Recording;

/// The present time by another clock than the tested one.
fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // a stopwatch
    Instant::now()
}

/// Whether `measured_ns` is at most `most`. The two clocks may differ by a tenth of `whole`, the
/// time of the test.
fn is_at_most(measured_ns: u64, most: Duration, whole: Duration) -> bool {
    u128::from(measured_ns) <= (most + whole / 10).as_nanos()
}

#[test]
fn p8_nothing_changes_before_the_iteration_ends() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let mut turns = custom_loop();
    (0..3).for_each(|_| drop(group!("p8").enter()));
    assert_eq!(recording.totals(GroupKind::Component, "p8").ticks, 0);
    turns.turn();
    let after = recording.totals(GroupKind::Component, "p8");
    turns.turn();
    assert_eq!((after.ticks, after.runs), (3, 1));
    assert_eq!(
        recording.totals(GroupKind::Component, "p8"),
        after,
        "the second end reports nothing"
    );
}

#[test]
fn p8_an_outer_custom_guard_that_ends_leaves_a_nested_custom_loop_unchanged() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let outer = custom_loop();
    let nested = nested_loop();
    let mut turns = custom_loop();
    drop(outer);
    drop(group!("p8 nested").enter());
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 nested").ticks,
        0,
        "it has not turned"
    );
    turns.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 nested").ticks, 1);
    drop(nested);
    drop(group!("p8 outer").enter());
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 outer").ticks,
        1,
        "the outer loop is no longer custom"
    );
    turns.turn();
    drop(turns); // its loop is over
}

#[test]
fn p8_a_turn_ends_an_iteration_of_its_own_loop_only() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let mut turns = custom_loop();
    drop(group!("p8 around").enter());
    let nested = nested_loop();
    turns.turn();
    drop(group!("p8 inside").enter());
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 inside").ticks,
        1,
        "the nested loop is not custom"
    );
    drop(nested);
    assert_eq!(recording.totals(GroupKind::Component, "p8 around").ticks, 0);
    turns.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 around").ticks, 1);
}

#[test]
fn p8_a_loop_stays_custom_until_its_last_custom_guard_ends() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let mut outer = custom_loop();
    let inner = custom_loop();
    drop(group!("p8 shared").enter());
    drop(inner);
    drop(group!("p8 shared").enter());
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 shared").ticks,
        0,
        "it has not turned"
    );
    outer.turn();
    assert_eq!(recording.totals(GroupKind::Component, "p8 shared").ticks, 2);
}

#[test]
fn p8_loops_may_end_in_any_order_and_the_thread_still_counts() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let around = group!("p8 crossed").enter();
    let turns = custom_loop();
    let nested = nested_loop();
    drop(turns);
    drop(nested);
    drop(around);
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 crossed").ticks,
        1
    );
    (0..3).for_each(|_| drop(group!("p8 crossed").enter()));
    assert_eq!(
        recording.totals(GroupKind::Component, "p8 crossed").ticks,
        4
    );
}

#[test]
fn p7_work_in_a_nested_loop_is_counted_in_it_alone() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let begin = now();
    let outer = group!("p7 outer").enter();
    let nested = nested_loop();
    let nested_from = now();
    let inner = group!("p7 inner").enter();
    std::thread::sleep(Duration::from_millis(20));
    drop(inner);
    let in_nested = nested_from.elapsed();
    drop(nested);
    drop(outer);
    let whole = begin.elapsed();
    let outer = recording.totals(GroupKind::Component, "p7 outer");
    let inner = recording.totals(GroupKind::Component, "p7 inner");
    assert_eq!(
        (outer.nested, inner.nested, outer.ticks, inner.ticks),
        (1, 0, 1, 1)
    );
    assert!(inner.wall_ns >= 19_900_000, "{inner:?}");
    assert!(
        is_at_most(outer.wall_ns, whole - in_nested, whole),
        "{outer:?} of {whole:?}, {in_nested:?} inside"
    );
}

#[test]
fn p7_a_loop_that_ends_also_ends_the_loops_inside_it() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let outer = group!("p7 left").enter();
    let first = nested_loop();
    let second = nested_loop();
    let begin = now();
    let inside = group!("p7 inside").enter();
    drop(first);
    let in_first = begin.elapsed();
    std::thread::sleep(Duration::from_millis(20));
    let whole = begin.elapsed();
    drop((second, inside)); // their loops are over
    drop(outer);
    let left = recording.totals(GroupKind::Component, "p7 left");
    let inside = recording.totals(GroupKind::Component, "p7 inside");
    assert_eq!((left.ticks, left.nested, inside.ticks), (1, 1, 1));
    assert!(
        left.wall_ns >= 19_900_000,
        "the outer group continues: {left:?}"
    );
    assert!(
        is_at_most(inside.wall_ns, in_first, whole),
        "{inside:?}, {in_first:?} of {whole:?}"
    );
}
