//! Tests of the numbers of a pusher in the metrics of its session.

use profiler_prometheus::session_metrics;
use std::time::Duration;

use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use test_support::own_process;
use test_support::patience::until;

use super::{PushDestination, PushOptions};
use profiler_parent::Session;
use profiler_prometheus::TextFormat;

/// The number of the series with this name and these labels.
fn number(session: &Session, series: &str) -> Option<u64> {
    let text = session_metrics(session).text(TextFormat::Prometheus);
    let mut numbers = text.lines().filter_map(|line| line.strip_prefix(series));
    numbers.next()?.trim().parse().ok()
}

/// An address at which nothing listens.
const DEAD_ADDRESS: &str = "otlp+http://127.0.0.1:1";

#[test]
fn a_pusher_that_has_ended_keeps_its_numbers_in_the_metrics_and_nothing_waits_any_more() {
    own_process!();
    let session = Session::builder().start().unwrap();
    assert_eq!(number(&session, "profiler_push_spool_bytes"), None);
    let address = DEAD_ADDRESS;
    let destination = PushDestination::parse(address).unwrap();
    let options = PushOptions::to(destination).period(Duration::from_millis(100));
    let pusher = crate::Pusher::start(&session, &options).unwrap();
    add_untyped_marker("pushed", &category::TEST, MarkerOptions::default());
    let waiting = format!("profiler_push_batches_waiting{{destination=\"{address}\"}}");
    let failed = format!("profiler_push_requests_failed_total{{destination=\"{address}\"}}");
    let captured = "profiler_push_entries_captured_total";
    assert!(until(|| number(&session, &waiting) > Some(0)));
    assert!(until(|| number(&session, &failed) > Some(0)));
    assert!(until(|| number(&session, captured) > Some(0)));
    let report = pusher.finish(Duration::ZERO);
    assert!(until(|| number(&session, &waiting) == Some(0)));
    assert_eq!(number(&session, "profiler_push_spool_bytes"), Some(0));
    assert_eq!(number(&session, captured), Some(report.captured_entries));
    let lost = "profiler_push_entries_total{destination=\"ADDRESS\",outcome=\"lost\"}";
    let lost = lost.replace("ADDRESS", address);
    let waiting = report.destinations.iter().map(|each| each.waiting_entries);
    let waiting: u64 = waiting.sum();
    assert!(waiting > 0, "{report:?}");
    assert_eq!(
        number(&session, &lost),
        Some(waiting),
        "the spool was temporary"
    );
    let [destination] = &report.destinations[..] else {
        panic!("{report:?}")
    };
    assert_eq!(number(&session, &failed), Some(destination.failed_requests));
}
