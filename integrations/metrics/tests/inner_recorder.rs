//! The program's own recorder gets what it would get without the profiler.

use metrics::{Recorder, Unit, counter, describe_counter, gauge, histogram, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use profiler_metrics::around;
use recorded_session::RunningSession;
use test_support::own_process;

use crate::support::value;

fn scenario() {
    describe_counter!("requests", Unit::Count, "Requests that were handled");
    for status in ["200", "500", "200"] {
        counter!("requests", "status" => status).increment(2);
    }
    counter!("external").absolute(17);
    let level = gauge!("level");
    level.set(2.5);
    level.increment(1);
    level.decrement(0.25);
    let times = histogram!("times_seconds");
    times.record(0.5);
    times.record_many(0.25, 3);
}

fn prometheus() -> (PrometheusRecorder, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

/// What a scrape gets after the scenario. The order of metrics is not fixed.
fn rendered(recorder: &dyn Recorder, scrape: &PrometheusHandle) -> Vec<String> {
    with_local_recorder(recorder, scenario);
    let mut lines: Vec<String> = scrape.render().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_prometheus_exporter_shows_the_same_as_without_the_profiler() {
    own_process!();
    let (recorder, scrape) = prometheus();
    let alone = rendered(&recorder, &scrape);
    assert!(
        alone
            .iter()
            .any(|line| line == "requests{status=\"200\"} 4")
    );
    let (recorder, scrape) = prometheus();
    assert_eq!(rendered(&around(recorder), &scrape), alone);
    let _session = RunningSession::start();
    let (recorder, scrape) = prometheus();
    assert_eq!(rendered(&around(recorder), &scrape), alone);
    assert_eq!(value("requests{status=200}"), 4);
    assert_eq!(value("times_seconds count"), 4);
    assert_eq!(value("times_seconds sum (µs)"), 1_250_000);
    assert_eq!(value("level"), 3);
    assert_eq!(value("level (thousandths)"), 3250);
}

#[test]
fn a_second_recorder_is_refused_and_returned() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    let refused = profiler_metrics::alone().install();
    assert!(refused.is_err());
}
