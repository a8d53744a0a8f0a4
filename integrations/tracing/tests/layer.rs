//! The layer records the same as the subscriber, and leaves other layers alone.

use std::sync::Mutex;

use profiler_tracing::RecordingRules;
use recorded_session::{Phase, Seen, Value, dropped, named};
use test_support::own_process;
use test_support::patience::until;
use tracing::{debug_span, info, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use crate::support::{Written, on_a_thread, start};

/// Installs a registry with the layer, and a fmt layer for warnings and errors.
fn install() -> Written {
    let written = Written::default();
    let fmt = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_writer(Mutex::new(written.clone()))
        .with_filter(LevelFilter::WARN);
    tracing_subscriber::registry()
        .with(profiler_tracing::layer())
        .with(fmt)
        .init();
    written
}

#[test]
fn a_span_of_a_registry_is_recorded_with_its_fields_and_ends_once() {
    own_process!();
    install();
    let _session = start();
    let outer = info_span!("outer", id = 1_u64).entered();
    let inner = debug_span!("inner", late = tracing::field::Empty);
    inner.record("late", "now");
    let clone = inner.clone();
    drop(inner);
    on_a_thread(move || drop(clone));
    drop(outer);
    let (outer, inner) = (named("outer"), named("inner"));
    let phases = |seen: &[Seen]| seen.iter().map(|seen| seen.phase).collect::<Vec<_>>();
    assert_eq!(phases(&outer), [Phase::Start, Phase::End]);
    assert_eq!(phases(&inner), [Phase::Start, Phase::Instant, Phase::End]);
    assert_eq!(outer[0].field("id"), Some(Value::U64(1)));
    assert_eq!(inner[0].field("parent"), Some(Value::U64(outer[0].span())));
    assert_eq!(inner[1].field("late"), Some("now".into()));
    assert_eq!(inner[2].foreign, Some(inner[0].recorder));
    assert_eq!(dropped(), 0);
}

#[test]
fn the_layer_is_off_without_a_session_and_other_layers_are_not() {
    own_process!();
    let written = install();
    assert!(!tracing::enabled!(tracing::Level::INFO));
    tracing::warn!("first");
    let session = start();
    assert!(until(|| tracing::enabled!(tracing::Level::INFO)));
    info!("not written");
    tracing::warn!("second");
    drop(session);
    tracing::warn!("third");
    let text = written.text();
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn polls_of_the_layer_are_intervals_if_the_rules_say_so() {
    own_process!();
    let layer = RecordingRules::default().polls(true).layer();
    tracing_subscriber::registry().with(layer).init();
    let _session = start();
    let span = info_span!("future");
    (0..2).for_each(|_| span.in_scope(|| ()));
    drop(span);
    let phases: Vec<_> = named("future").iter().map(|seen| seen.phase).collect();
    let expected = [Phase::Start, Phase::Interval, Phase::Interval, Phase::End];
    assert_eq!(phases, expected);
}

#[test]
fn a_span_of_the_layer_that_is_open_at_a_stop_ends_in_the_next_session() {
    own_process!();
    install();
    let session = start();
    let open = info_span!("open", late = tracing::field::Empty).entered();
    drop(session);
    tracing::warn!("between");
    let _session = start();
    let inner = info_span!("inner").entered();
    drop((inner, open));
    assert_eq!(named("open").len(), 1, "its end");
    assert_eq!(named("inner").len(), 2);
}
