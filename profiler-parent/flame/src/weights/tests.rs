//! Tests of the time that each stack took.

use proptest::prelude::*;

use super::cell::RecentPeriods;
use super::*;
use crate::window::{Period, Resolution, Window};

const THREAD: ThreadNumber = ThreadNumber(0);
const SECOND: i64 = 1_000_000_000;

fn sum(weights: &Weights, range: Option<PeriodRange>) -> Weight {
    let all = weights.within(range);
    all.fold(Weight::default(), |sum, cell| sum.plus(cell.weight))
}

#[test]
fn a_long_wait_is_divided_among_the_periods() {
    let mut weights = Weights::default();
    let mut room = Room::of(10, 0);
    let node = NodeNumber(3);
    weights.add_wait(THREAD, node, (-5, 1000 * SECOND), &mut room);
    let now = 1000 * SECOND - 1;
    let ten = sum(&weights, Window::TenSeconds.now(now));
    assert_eq!(ten, Weight::off(10 * SECOND as u64));
    let before = sum(&weights, Window::TenSeconds.before(now));
    assert_eq!(before, Weight::off(10 * SECOND as u64));
    let all = sum(&weights, None);
    assert_eq!(all, Weight::off(1000 * SECOND as u64 + 5));
}

#[test]
fn stacks_without_room_keep_their_time_in_their_thread_or_are_counted() {
    let mut weights = Weights::default();
    let mut room = Room::of(2, 0);
    for node in 0..5 {
        weights.add(THREAD, NodeNumber(node), 0, Weight::on(10), &mut room);
        if node == 0 {
            weights.add(THREAD, NodeNumber::NONE, 0, Weight::on(1), &mut room);
        }
    }
    assert_eq!(sum(&weights, None), Weight::on(51));
    weights.add(ThreadNumber(1), NodeNumber(0), 0, Weight::on(7), &mut room);
    assert_eq!(weights.left_out(), Weight::on(7));
}

#[test]
fn a_process_with_many_stacks_leaves_room_for_other_processes() {
    let mut room = Room::of(10, 0);
    room.set_share(4);
    let mut greedy = Weights::default();
    greedy.reserve(THREAD, &mut room);
    for node in 0..100 {
        greedy.add(THREAD, NodeNumber(node), 0, Weight::on(1), &mut room);
    }
    assert_eq!((greedy.len(), sum(&greedy, None)), (4, Weight::on(100)));
    let mut other = Weights::default();
    for node in 0..4 {
        other.add(THREAD, NodeNumber(node), 0, Weight::on(1), &mut room);
    }
    assert_eq!((other.len(), room.cells), (4, 2));
    room.give_back(greedy.len(), 3);
    assert_eq!((room.cells, room.nodes), (6, 3));
}

#[test]
fn a_thread_with_reserved_room_keeps_the_time_of_all_stacks() {
    let mut room = Room::of(1, 0);
    let mut weights = Weights::default();
    weights.reserve(THREAD, &mut room);
    weights.add(THREAD, NodeNumber(1), 0, Weight::on(5), &mut room);
    weights.add_wait(THREAD, NodeNumber(2), (0, 7), &mut room);
    let kept = Weight {
        on_ns: 5,
        off_ns: 7,
    };
    assert_eq!(sum(&weights, None), kept);
    assert_eq!(weights.left_out(), Weight::default());
}

#[test]
fn old_periods_are_dropped_and_stay_in_the_total() {
    let mut weights = Weights::default();
    let mut room = Room::of(1, 0);
    for second in 0..500 {
        weights.add(
            THREAD,
            NodeNumber(0),
            second * SECOND,
            Weight::on(1000),
            &mut room,
        );
    }
    let kept = |recent: &RecentPeriods| recent.0.len() <= Resolution::KEPT as usize;
    assert!(
        weights
            .cells
            .iter()
            .all(|cell| kept(&cell.fine) && kept(&cell.coarse))
    );
    weights.forget_before(5000 * SECOND);
    assert!(weights.cells.iter().all(|cell| cell.fine.0.is_empty()));
    assert_eq!(sum(&weights, None), Weight::on(500_000));
}

#[test]
fn time_that_is_read_late_is_in_the_total_and_only_in_periods_that_a_window_contains() {
    let mut weights = Weights::default();
    let mut room = Room::of(1, 0);
    for second in (0..500).rev() {
        let at_ns = second * SECOND;
        weights.add(THREAD, NodeNumber(0), at_ns, Weight::on(1000), &mut room);
    }
    let periods = |recent: &RecentPeriods| recent.0.len();
    let kept = Resolution::KEPT as usize;
    assert_eq!(periods(&weights.cells[0].fine), kept);
    assert_eq!(periods(&weights.cells[0].coarse), kept);
    let now = 500 * SECOND - 1;
    let ten = sum(&weights, Window::TenSeconds.now(now));
    assert_eq!(
        (ten, sum(&weights, None)),
        (Weight::on(10_000), Weight::on(500_000))
    );
}

proptest! {
    #[test]
    fn waits_of_any_length_keep_their_time(from in any::<i64>(), to in any::<i64>()) {
        let mut weights = Weights::default();
        let mut room = Room::of(1, 0);
        weights.add_wait(THREAD, NodeNumber(0), (from, to), &mut room);
        let length = u64::try_from(to.saturating_sub(from)).unwrap_or(0);
        let off = sum(&weights, None).off_ns;
        prop_assert!(off == length || length == i64::MAX as u64, "{off} of {length}");
    }

    #[test]
    fn each_period_has_the_time_that_was_spent_in_it_in_any_order(
        steps in prop::collection::vec((0..20_i64, 1..5_u64), 1..80),
    ) {
        let mut weights = Weights::default();
        let mut room = Room::of(1, 0);
        let mut expected = [0; 20];
        for (second, us) in steps {
            let weight = Weight::on(us * 1000);
            weights.add(THREAD, NodeNumber(0), second * SECOND, weight, &mut room);
            expected[usize::try_from(second).unwrap()] += us * 1000;
        }
        let periods = weights.cells[0].fine.0.len();
        prop_assert_eq!(periods, expected.iter().filter(|ns| **ns > 0).count());
        for (period, expected) in (0..).map(Period).zip(expected) {
            let range = PeriodRange {
                resolution: Resolution::Fine,
                first: period,
                end: period.next(),
            };
            prop_assert_eq!(sum(&weights, Some(range)).on_ns, expected);
        }
    }

    #[test]
    fn windows_contain_the_time_that_was_spent_in_them(
        steps in prop::collection::vec(
            (0..4_u32, 0..60_000_000_000_i64, 0..5_000_000_u64), 1..80),
    ) {
        let mut weights = Weights::default();
        let mut room = Room::of(100, 0);
        let now = 60 * SECOND - 1;
        let mut expected = 0;
        for (node, at, on) in &steps {
            weights.add(THREAD, NodeNumber(*node), *at, Weight::on(*on), &mut room);
            expected += on;
        }
        prop_assert_eq!(sum(&weights, None).on_ns, expected);
        // Late data of dropped periods may be missing, but nothing is counted twice.
        let mut inside = 0;
        for window in [Window::TenSeconds.now(now), Window::TenSeconds.before(now)] {
            inside += sum(&weights, window).on_ns;
        }
        prop_assert!(inside <= expected);
        let is_late = |(_, at, _): &&(u32, i64, u64)| *at >= 50 * SECOND;
        let late: Vec<u64> = steps.iter().filter(is_late).map(|(.., on)| *on).collect();
        let recent: u64 = late.iter().sum();
        let found = sum(&weights, Window::TenSeconds.now(now)).on_ns;
        // A cell carries the fraction of a microsecond from one step to the next, which may be in
        // another window.
        let carried = 1000 * late.len() as u64;
        prop_assert!(found.abs_diff(recent) <= carried, "{found} of {recent}");
    }
}
