//! With the real crates `tracing` and `tracing-log`, everything is in the profile once.

use log::LevelFilter;
use profiler_log::RecordingRules;
use recorded_session::{RunningSession, markers};
use test_support::own_process;

use crate::support::{Noting, messages};

/// Installs the logger, and returns the one that it is around.
fn install(beside_tracing: bool) -> Noting {
    let noting = Noting::up_to(LevelFilter::Info);
    let rules = RecordingRules::default().beside_tracing(beside_tracing);
    rules
        .around(noting.clone())
        .install(LevelFilter::Info)
        .unwrap();
    noting
}

fn record_with_profiler_tracing() {
    let subscriber = profiler_tracing::subscriber();
    tracing::subscriber::set_global_default(subscriber).unwrap();
}

/// One event and one record.
fn both() {
    tracing::info!(bytes = 7, "an event");
    log::info!("a record");
}

#[test]
fn records_that_tracing_makes_are_recorded_if_only_this_crate_records() {
    own_process!();
    let noting = install(false);
    let _session = RunningSession::start();
    both();
    assert_eq!(messages(), ["an event bytes=7", "a record"]);
    assert_eq!(noting.take().len(), 3, "the question of tracing, too");
}

#[test]
fn records_that_tracing_makes_are_left_out_beside_tracing() {
    own_process!();
    let noting = install(true);
    let _session = RunningSession::start();
    both();
    tracing::info_span!("a span").in_scope(|| ());
    assert_eq!(messages(), ["a record"]);
    let passed_on = noting.take();
    assert!(passed_on.iter().any(|call| call.contains("an event")));
    assert!(passed_on.iter().any(|call| call.contains("a span")));
}

#[test]
fn events_and_records_are_recorded_once_with_both_packages() {
    own_process!();
    install(true);
    record_with_profiler_tracing();
    for _ in 0..2 {
        let _session = RunningSession::start();
        both();
        assert_eq!(messages(), ["an event", "a record"]);
        assert_eq!(markers().len(), 2);
    }
}

#[test]
fn records_are_recorded_once_by_profiler_tracing_with_a_log_tracer() {
    own_process!();
    tracing_log::LogTracer::init().unwrap();
    record_with_profiler_tracing();
    let _session = RunningSession::start();
    both();
    assert_eq!(messages(), ["an event", "a record"]);
    assert_eq!(markers().len(), 2);
}
