//! What metrics become in the profile.

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use profiler_core::internal::entry::Timing;
use profiler_core::time::Timestamp;
use recorded_session::{Phase, RunningSession, dropped, markers};
use test_support::own_process;
use test_support::patience::until;

use crate::support::{counter_named, counters, start_alone, value};

#[test]
fn a_counter_has_a_track_for_each_set_of_labels() {
    own_process!();
    let _session = start_alone();
    for (method, times) in [("GET", 3), ("POST", 5)] {
        let requests = counter!("requests", "method" => method, "status" => "200");
        (0..times).for_each(|_| requests.increment(2));
    }
    counter!("requests").increment(1);
    assert_eq!(value("requests{method=GET, status=200}"), 6);
    assert_eq!(value("requests{method=POST, status=200}"), 10);
    assert_eq!(value("requests"), 1);
    let seen = counter_named("requests").unwrap();
    assert_eq!((&*seen.category, seen.changes), ("Metrics", 1));
    assert_eq!(counters().len(), 3);
}

#[test]
fn the_order_of_labels_does_not_matter() {
    own_process!();
    let _session = start_alone();
    counter!("c", "a" => "1", "b" => "2").increment(1);
    counter!("c", "b" => "2", "a" => "1").increment(1);
    assert_eq!(value("c{a=1, b=2}"), 2);
    assert_eq!(counters().len(), 1);
}

#[test]
fn units_and_descriptions_decide_how_a_track_is_shown() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    describe_counter!("sent", Unit::Kibibytes, "What was sent");
    describe_gauge!("buffer", Unit::Bytes, "Bytes in buffers");
    describe_gauge!("load", Unit::Percent, "Use of the machine");
    let _session = RunningSession::start();
    counter!("sent").increment(3);
    gauge!("buffer").set(1000);
    gauge!("load").set(12.5);
    gauge!("uptime_seconds").set(1.5);
    let sent = counter_named("sent").unwrap();
    assert_eq!((&*sent.category, sent.value), ("Bandwidth", 3072));
    assert_eq!(sent.description, "What was sent");
    let buffer = counter_named("buffer").unwrap();
    assert_eq!((&*buffer.category, buffer.value), ("Memory", 1000));
    assert_eq!(value("load (1/1000 %)"), 12_500);
    assert_eq!(value("uptime_seconds (µs)"), 1_500_000);
}

#[test]
fn an_absolute_value_counts_by_its_growth() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    let total = counter!("total");
    total.absolute(1000);
    let _session = RunningSession::start();
    total.absolute(1004);
    total.absolute(1002); // of a thread that was slower
    total.absolute(1010);
    assert_eq!(value("total"), 10);
    let from_zero = counter!("from zero");
    for value in [0, 5, 9] {
        from_zero.absolute(value);
    }
    assert_eq!(value("from zero"), 9);
}

#[test]
fn a_gauge_has_its_value_from_before_the_session() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    let open = gauge!("open");
    open.increment(7);
    gauge!("never set").increment(0);
    for _ in 0..2 {
        let _session = RunningSession::start();
        assert!(until(|| value("open") == 7));
        open.decrement(2);
        assert_eq!(value("open"), 5);
        open.set(7);
        assert_eq!(value("open"), 7);
        assert_eq!(counters().len(), 1);
    }
}

#[test]
fn a_gauge_with_a_fraction_gets_a_track_in_thousandths() {
    own_process!();
    let _session = start_alone();
    let ratio = gauge!("hits");
    ratio.set(2);
    assert_eq!(counters().len(), 1);
    ratio.set(0.75);
    assert_eq!((value("hits"), value("hits (thousandths)")), (1, 750));
    ratio.set(-3);
    assert_eq!((value("hits"), value("hits (thousandths)")), (-3, -3000));
}

#[test]
fn a_value_of_a_histogram_is_a_marker_and_adds_to_two_counters() {
    own_process!();
    let _session = start_alone();
    let sizes = histogram!("reply_bytes", "kind" => "html");
    sizes.record(1024);
    sizes.record_many(10, 3);
    sizes.record_many(10, 0);
    histogram!("score").record(0.5);
    let [first, many, score] = markers().try_into().unwrap();
    assert_eq!(first.name, "reply_bytes{kind=html}");
    assert_eq!(
        (
            &*first.type_name,
            first.float("value"),
            first.number("times")
        ),
        ("HistogramBytes", 1024.0, None)
    );
    assert_eq!((many.float("value"), many.number("times")), (10.0, Some(3)));
    assert_eq!(
        (&*score.type_name, score.float("value")),
        ("HistogramValue", 0.5)
    );
    assert_eq!(value("reply_bytes{kind=html} count"), 4);
    let sum = counter_named("reply_bytes{kind=html} sum").unwrap();
    assert_eq!((&*sum.category, sum.value), ("Bandwidth", 1054));
    assert_eq!(value("score sum (thousandths)"), 500);
    assert_eq!(dropped(), 0);
}

#[test]
fn a_time_of_a_histogram_is_an_interval_that_ends_now() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    describe_histogram!("latency", Unit::Milliseconds, "Time of a request");
    let _session = RunningSession::start();
    let latency = histogram!("latency");
    // The length of a tick is known after the first millisecond.
    assert!(until(|| {
        latency.record(0.5);
        markers()
            .last()
            .is_some_and(|seen| seen.phase == Phase::Interval)
    }));
    let before = Timestamp::now();
    latency.record(0.25);
    let after = Timestamp::now();
    let all = markers();
    let seen = all.last().unwrap();
    assert_eq!(
        (&*seen.type_name, seen.float("value")),
        ("HistogramTime", 0.25)
    );
    let [(longer_begin, longer_end), (begin, end)] =
        [all.len() - 2, all.len() - 1].map(|index| match all[index].timing {
            Timing::Interval(begin, end) => (begin, end),
            other => panic!("{other:?}"),
        });
    assert!(before <= end && end <= after && begin < end);
    let [short, long] = [end.since(begin), longer_end.since(longer_begin)];
    assert!(long.abs_diff(2 * short) <= 2, "{short} and {long} ticks");
    latency.record(f64::NAN);
    latency.record(-1.0);
    latency.record(f64::MAX);
    assert_eq!(
        value("latency count"),
        i64::try_from(markers().len()).unwrap()
    );
    assert_eq!(dropped(), 0);
}

#[test]
fn without_a_session_nothing_is_counted_and_a_new_session_begins_with_zero() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    let requests = counter!("requests");
    requests.increment(100);
    for _ in 0..2 {
        let session = RunningSession::start();
        requests.increment(1);
        assert_eq!(value("requests"), 1);
        drop(session);
        requests.increment(100);
        histogram!("times_seconds").record(1);
    }
}
