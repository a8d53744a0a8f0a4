//! Guards dropped in another order, or after the end of their session; a clock that is relearned; a
//! full stopwatch.

use super::*;

#[test]
fn p15_a_wait_that_ends_out_of_order_ends_in_its_own_loop() {
    let mut thread = Thread::new(ALL);
    let around = thread.enter(&[unregistered("outer")]);
    let waits = thread.wait(&[unregistered("waits")]);
    let serial = thread.watch.begin_nested(&thread.clock).unwrap();
    thread.exit(waits);
    thread.run(&[unregistered("inner")], 20);
    assert!(thread.watch.is_in(serial));
    thread.watch.end_nested(&thread.clock);
    thread.spin(5);
    thread.exit(around);
    thread.run(&[unregistered("after")], 50);
    for (name, ns) in [("outer", 5), ("inner", 20), ("after", 50)] {
        let totals = thread.totals(name);
        assert_eq!(
            (totals.wall_ns, totals.cpu_ns, totals.blocking_ns),
            (ns, ns, 0),
            "{name}"
        );
    }
}

#[test]
fn p15_a_wait_of_an_earlier_session_ends_nothing_in_a_later_one() {
    let mut thread = Thread::new(ALL);
    let old = thread.wait(&[unregistered("old")]);
    thread.watch.reset();
    let owned = thread.wait(&[unregistered("new")]);
    thread.pass(3, 0);
    thread.exit(old);
    thread.pass(4, 0);
    thread.exit(owned);
    assert_eq!(thread.totals("new").blocking_ns, 7);
}

#[test]
fn p2_a_group_is_left_with_the_last_of_its_guards_in_whatever_order_they_go() {
    let mut thread = Thread::new(ALL);
    let a = unregistered("a");
    let b = unregistered("b");
    let first = thread.enter(&[a]);
    thread.spin(1);
    let both = thread.enter(&[b, a, a]);
    let third = thread.enter(&[a]);
    thread.spin(2);
    thread.exit(first);
    thread.spin(4);
    thread.exit(both);
    thread.spin(8);
    assert_eq!(thread.commits, 0, "the thread is in a group");
    thread.exit(third);
    let a = thread.totals("a");
    let b = thread.totals("b");
    assert_eq!((a.ticks, a.runs, a.wall_ns, a.cpu_ns), (1, 1, 15, 15));
    assert_eq!((b.ticks, b.wall_ns), (1, 6));
    assert_eq!(thread.totals("process").wall_ns, 15);
}

#[test]
fn p2_an_end_on_the_way_and_a_pause_change_nothing_of_who_holds_a_group() {
    let mut thread = Thread::new(ALL);
    let group = unregistered("a");
    let first = thread.enter(&[group]);
    let second = thread.enter(&[group]);
    thread.spin(1);
    thread.turn();
    thread.watch.begin_nested(&thread.clock).unwrap();
    thread.exit(first); // while its loop is paused
    thread.watch.end_nested(&thread.clock);
    thread.spin(2);
    thread.exit(second);
    assert_eq!(
        (thread.totals("a").ticks, thread.totals("a").wall_ns),
        (1, 3)
    );
    thread.run(&[group], 4);
    assert_eq!(
        (thread.totals("a").ticks, thread.totals("a").wall_ns),
        (2, 7)
    );
}

#[test]
fn p2_entering_what_is_implied_does_not_end_it() {
    let mut thread = Thread::new(ALL);
    let process = thread.implied[1];
    let around = thread.enter(&[unregistered("a")]);
    let inner = thread.enter(&[process]);
    thread.spin(1);
    thread.exit(inner);
    thread.spin(2);
    thread.exit(around);
    assert_eq!(
        (
            thread.totals("process").ticks,
            thread.totals("process").wall_ns
        ),
        (1, 3)
    );
}

#[test]
fn p9_the_rate_of_the_clock_is_learned_before_it_is_used() {
    let mut thread = Thread::new(ALL);
    thread.clock.exact.set(Some(0));
    thread.run(&[unregistered("a")], 3 * MS);
    let owned = thread.enter(&[unregistered("a")]);
    thread.spin(MS);
    thread.turn();
    thread.exit(owned);
    let totals = thread.totals("a");
    assert_eq!(
        (totals.wall_ns, totals.histogram.longest_ns() <= 3 * MS),
        (4 * MS, true)
    );
}

#[test]
fn more_groups_than_there_is_room_for_still_have_their_ticks() {
    let mut thread = Thread::new(ALL);
    let groups: Vec<Id> = (0..LAPS + 20)
        .map(|number| unregistered(&format!("g{number}")))
        .collect();
    let owned: Vec<Owned> = groups.iter().map(|group| thread.enter(&[group])).collect();
    thread.spin(9);
    owned.into_iter().rev().for_each(|owned| thread.exit(owned));
    let told = groups
        .iter()
        .filter(|group| thread.totals(group.name()).ticks == 1)
        .count();
    assert_eq!(told, LAPS - 2, "two are the thread's and the process's");
    assert_eq!(
        groups.iter().map(|group| group.kept()).sum::<u64>(),
        22,
        "the others wait for their next run"
    );
    thread.run(&groups[..1], 4);
    assert_eq!(thread.totals("g0").wall_ns, 13, "and all is as before");
}

#[test]
fn the_innermost_group_is_that_which_was_entered_last_and_is_still_open() {
    let mut thread = Thread::new(ALL);
    let [tenant, plugin, waits] = ["tenant", "plugin", "waits"].map(unregistered);
    let is = |thread: &Thread, group: Option<Id>| {
        thread.watch.innermost().map(std::ptr::from_ref) == group.map(std::ptr::from_ref)
    };
    assert!(is(&thread, None));
    let outer = thread.enter(&[tenant]);
    let inner = thread.enter(&[plugin]);
    assert!(is(&thread, Some(plugin)));
    let again = thread.enter(&[tenant]);
    let waiting = thread.wait(&[waits]);
    assert!(is(&thread, Some(plugin)), "neither is newly entered work");
    thread.exit(waiting);
    thread.exit(again);
    thread.exit(outer);
    assert!(
        is(&thread, Some(plugin)),
        "the guards leave in another order"
    );
    thread.exit(inner);
    assert!(is(&thread, None));
    let outer = thread.enter(&[tenant, plugin]);
    assert!(is(&thread, Some(plugin)), "the last one of several");
    let around = thread.enter(&[waits]);
    thread.watch.begin_nested(&thread.clock).unwrap();
    assert!(
        is(&thread, None),
        "a nested loop pauses the groups around it"
    );
    thread.exit(around);
    thread.watch.end_nested(&thread.clock);
    assert!(is(&thread, Some(plugin)), "it was left within the loop");
    thread.exit(outer);
    assert!(is(&thread, None));
}
