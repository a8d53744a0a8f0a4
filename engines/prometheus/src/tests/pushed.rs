//! Tests of the numbers of pushers: each counts once, also after its end, and destinations are
//! bounded.

use std::sync::{Arc, Mutex};

use super::metrics;
use super::parsed::{Series, parse};
use crate::TextFormat;
use profiler_parent::internal::pushers::{
    CaptureSum, DestinationNumbers, DestinationSum, ListedPusher, MAX_DESTINATIONS, PushNumbers,
    PushOutcomes, PushSource, PushSums,
};
use profiler_parent::internal::session_metrics::MetricsReading;
use profiler_parent::internal::session_metrics::OTHER;

/// A pusher that counts what a test says.
#[derive(Debug, Default)]
struct Counting(Mutex<PushNumbers>);

impl PushSource for Counting {
    fn numbers(&self) -> PushNumbers {
        self.0.lock().unwrap().clone()
    }
}

/// The numbers of a pusher that has sent this number of batches to each of these addresses.
fn sent(addresses: &[&str], batches: u64) -> PushNumbers {
    let outcomes = |each: u64| PushOutcomes {
        sent: each * batches,
        lost: each,
        rejected: 2 * each,
    };
    let destination = |address: &&str| DestinationNumbers {
        address: (*address).to_owned(),
        waiting_batches: 3,
        waiting_entries: 300,
        sum: DestinationSum {
            batches: outcomes(1),
            entries: outcomes(100),
            requests: 2 * batches,
            failed_requests: 1,
            body_bytes: 4_000 * batches,
            sent_bytes: 1_000 * batches,
            missed_entries: 7,
            failed_captures: 1,
            left_batches: 0,
        },
    };
    PushNumbers {
        captures: CaptureSum {
            entries: 100 * batches,
            missed: 7,
            failed: 1,
        },
        spool_bytes: 5_000,
        keeps_waiting: true,
        destinations: addresses.iter().map(destination).collect(),
    }
}

fn list(sums: &Arc<PushSums>, numbers: PushNumbers) -> (Arc<Counting>, ListedPusher) {
    let pusher = Arc::new(Counting(Mutex::new(numbers)));
    let listed = sums.list(Arc::<Counting>::clone(&pusher));
    (pusher, listed)
}

fn text(sums: &PushSums, format: TextFormat) -> String {
    let reading = MetricsReading {
        pushed: sums.read(),
        ..MetricsReading::default()
    };
    let text = metrics(reading).text(format);
    let lines = text.lines().filter(|line| line.contains("profiler_push_"));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

fn number(sums: &PushSums, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels = labels.iter();
    let labels = labels.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let series: Series = (name.to_owned(), labels.collect());
    parse(&text(sums, TextFormat::Prometheus))
        .get(&series)
        .copied()
}

const OTLP: &str = "otlp+http://127.0.0.1:4318";
const STORE: &str = "clickhouse+http://store:8123/profiles";

#[test]
fn the_whole_text_of_two_destinations() {
    let sums = Arc::<PushSums>::default();
    let _pusher = list(&sums, sent(&[OTLP, STORE], 5));
    insta::assert_snapshot!("pushed_for_prometheus", text(&sums, TextFormat::Prometheus));
    insta::assert_snapshot!(
        "pushed_in_open_metrics",
        text(&sums, TextFormat::OpenMetrics)
    );
}

#[test]
fn a_session_that_never_pushed_has_no_numbers_of_pushers() {
    assert_eq!(text(&PushSums::default(), TextFormat::Prometheus), "");
}

#[test]
fn a_pusher_that_has_ended_keeps_its_numbers_and_nothing_waits_for_it() {
    const SENT: &str = "profiler_push_batches_total";
    const WAITING: &str = "profiler_push_batches_waiting";
    const CAPTURED: &str = "profiler_push_entries_captured_total";
    let sums = Arc::<PushSums>::default();
    let labels = [("destination", OTLP), ("outcome", "sent")];
    let [to_otlp, _] = labels;
    let (first, listed) = list(&sums, sent(&[OTLP], 5));
    let (_second, also_listed) = list(&sums, sent(&[OTLP, STORE], 10));
    assert_eq!(number(&sums, SENT, &labels), Some(15.0));
    assert_eq!(number(&sums, WAITING, &[to_otlp]), Some(6.0));
    // It counts on between the last reading and its end.
    *first.0.lock().unwrap() = sent(&[OTLP], 6);
    drop(listed);
    *first.0.lock().unwrap() = sent(&[OTLP], 99);
    assert_eq!(number(&sums, SENT, &labels), Some(16.0));
    assert_eq!(number(&sums, WAITING, &[to_otlp]), Some(3.0));
    assert_eq!(number(&sums, CAPTURED, &[]), Some(1_600.0));
    drop(also_listed);
    assert_eq!(number(&sums, SENT, &labels), Some(16.0));
    assert_eq!(number(&sums, WAITING, &[to_otlp]), Some(0.0));
    assert_eq!(number(&sums, "profiler_push_spool_bytes", &[]), Some(0.0));
    let _third = list(&sums, sent(&[OTLP], 1));
    assert_eq!(number(&sums, SENT, &labels), Some(17.0));
}

#[test]
fn further_destinations_share_one_series() {
    let sums = Arc::<PushSums>::default();
    let addresses: Vec<String> = (0..MAX_DESTINATIONS + 5)
        .map(|number| format!("otlp+http://host-{number}"))
        .collect();
    let _pushers: Vec<_> = addresses
        .iter()
        .map(|address| list(&sums, sent(&[address], 2)))
        .collect();
    let text = text(&sums, TextFormat::Prometheus);
    let requests = text
        .lines()
        .filter(|line| line.starts_with("profiler_push_requests_total{"));
    assert_eq!(requests.count(), MAX_DESTINATIONS + 1);
    let other = [("destination", OTHER)];
    let number = |name| number(&sums, name, &other);
    assert_eq!(number("profiler_push_requests_total"), Some(20.0));
    assert_eq!(number("profiler_push_batches_waiting"), Some(15.0));
}
