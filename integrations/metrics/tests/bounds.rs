//! The number of labels, metrics and markers is bounded, and every loss is counted.

use metrics::{counter, gauge, histogram};
use recorded_session::{dropped, markers};
use test_support::own_process;

use crate::support::{counters, start_alone, value};

const WITHOUT_LABELS: &str = "Metrics: changes without their labels";
const LEFT_OUT: &str = "Metrics: changes left out";
const WITHOUT_MARKER: &str = "Metrics: histogram values without a marker";

/// The sum of the counters whose names begin so.
fn sum(prefix: &str) -> i64 {
    let all = counters().into_iter();
    all.filter(|counter| counter.name.starts_with(prefix))
        .map(|counter| counter.value)
        .sum()
}

#[test]
fn labels_beyond_the_bound_of_a_name_share_a_track_and_are_counted() {
    own_process!();
    let _session = start_alone();
    for user in 0..1000 {
        counter!("logins", "user" => user.to_string()).increment(2);
    }
    counter!("other name", "user" => "1").increment(1);
    assert_eq!(value("logins (other labels)"), 900 * 2);
    assert_eq!(value(WITHOUT_LABELS), 900);
    assert_eq!(sum("logins"), 2000);
    assert_eq!(value("other name{user=1}"), 1);
    assert_eq!(value(LEFT_OUT), 0);
}

#[test]
fn more_label_sets_than_are_known_share_a_track() {
    own_process!();
    let _session = start_alone();
    for user in 0..6000 {
        counter!("logins", "user" => user.to_string()).increment(1);
    }
    assert_eq!(sum("logins"), 6000);
    assert_eq!(value(WITHOUT_LABELS), 5900);
}

#[test]
fn more_names_than_tracks_are_counted_as_left_out() {
    own_process!();
    let _session = start_alone();
    for number in 0..2000 {
        counter!(format!("name {number:04}")).increment(1);
    }
    let recorded = sum("name ");
    assert_eq!(recorded, 600 + 300);
    assert_eq!(value(WITHOUT_LABELS), 300);
    assert_eq!(recorded + value(LEFT_OUT), 2000);
}

#[test]
fn gauges_beyond_the_bound_are_left_out_and_counted() {
    own_process!();
    let _session = start_alone();
    for user in 0..150 {
        gauge!("open", "user" => user.to_string()).set(1);
    }
    assert_eq!(sum("open"), 100);
    assert_eq!(value(LEFT_OUT), 50);
}

#[test]
fn a_hot_histogram_has_few_markers_and_all_values_in_its_counters() {
    own_process!();
    let _session = start_alone();
    let values = histogram!("hot");
    // Far more than the markers of the windows that this takes.
    let mut recorded = 0_i64;
    while value(WITHOUT_MARKER) == 0 {
        (0..10_000).for_each(|_| values.record(1));
        recorded += 10_000;
    }
    assert_eq!(
        (value("hot count"), value("hot sum (thousandths)")),
        (recorded, 1000 * recorded)
    );
    let seen = i64::try_from(markers().len()).unwrap();
    // On a busy machine, a marker may find no chunk that is ready.
    let dropped = i64::try_from(dropped()).unwrap();
    assert_eq!(seen + value(WITHOUT_MARKER) + dropped, recorded);
}
