//! What is recorded of spans and events, without an inner subscriber that wants them.

use std::thread;

use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use recorded_session::{Phase, RunningSession, Seen, Value, dropped, markers, named};
use test_support::own_process;
use tracing::{Span, debug_span, info, info_span, trace_span};

use crate::support::{on_a_thread, start_with};
use profiler_tracing::{RecordingRules, subscriber};

/// Starts a session with a subscriber that records, and whose inner subscriber wants nothing.
fn start() -> RunningSession {
    start_with(subscriber())
}

fn phases(name: &str) -> Vec<Phase> {
    named(name).iter().map(|seen| seen.phase).collect()
}

#[test]
fn a_span_is_a_start_with_its_fields_and_an_end_with_its_number() {
    own_process!();
    let _session = start();
    info_span!("request", method = "GET", bytes = 70_000_u64).in_scope(|| ());
    let seen = named("request");
    assert_eq!(phases("request"), [Phase::Start, Phase::End]);
    assert_eq!(seen[0].field("method"), Some("GET".into()));
    assert_eq!(seen[0].field("bytes"), Some(Value::U64(70_000)));
    assert_eq!(
        seen[1].fields,
        [("span".to_owned(), Value::U64(seen[0].span()))]
    );
    assert_eq!(seen[0].category, "all", "the crate of the test");
    assert!(
        seen[0].type_name.starts_with("Span request "),
        "{}",
        seen[0].type_name
    );
    assert_eq!(dropped(), 0);
}

#[test]
fn an_open_span_is_recorded_with_its_fields() {
    own_process!();
    let _session = start();
    let _open = info_span!("open", path = %"/index.html").entered();
    let seen = named("open");
    assert_eq!(phases("open"), [Phase::Start]);
    assert_eq!(seen[0].field("path"), Some("/index.html".into()));
}

#[test]
fn numbers_and_booleans_keep_their_types() {
    own_process!();
    let _session = start();
    info!(
        unsigned = 1_u8,
        signed = -1,
        float = 0.5,
        flag = true,
        large = 1_u128 << 100,
        "typed"
    );
    let is_typed = |seen: &Seen| seen.field("message") == Some("typed".into());
    let seen = markers().into_iter().find(is_typed).unwrap();
    let expected = [
        ("message", "typed".into()),
        ("unsigned", Value::U64(1)),
        ("signed", Value::I64(-1)),
        ("float", Value::F64(0.5)),
        ("flag", Value::Bool(true)),
        ("large", "1267650600228229401496703205376".into()),
    ];
    for (key, value) in expected {
        assert_eq!(seen.field(key), Some(value), "{key}");
    }
}

#[test]
fn a_span_that_ends_on_another_thread_ends_on_the_thread_on_which_it_began() {
    own_process!();
    let _session = start();
    let span = info_span!("moved");
    on_a_thread(move || drop(span));
    let [start, end] = &named("moved")[..] else {
        panic!("{:?}", named("moved"))
    };
    assert_eq!((start.phase, end.phase), (Phase::Start, Phase::End));
    assert_eq!(start.span(), end.span());
    assert_ne!(start.recorder, end.recorder);
    assert_eq!(end.foreign, Some(start.recorder));
}

#[test]
fn a_cloned_span_ends_with_its_last_handle() {
    own_process!();
    let _session = start();
    let first = info_span!("cloned");
    let second = first.clone();
    let third = second.clone();
    drop(first);
    on_a_thread(move || drop(second));
    assert_eq!(phases("cloned"), [Phase::Start]);
    drop(third);
    assert_eq!(phases("cloned"), [Phase::Start, Phase::End]);
}

#[test]
fn the_span_that_a_thread_is_in_is_its_current_span() {
    own_process!();
    let _session = start();
    assert!(Span::current().is_none());
    let outer = info_span!("outer").entered();
    let inner = info_span!("inner").entered();
    assert_eq!(Span::current().id(), inner.id());
    assert_eq!(Span::current().metadata().unwrap().name(), "inner");
    drop(inner);
    assert_eq!(Span::current().id(), outer.id());
    let numbers = ["outer", "inner"].map(|name| named(name)[0].clone());
    assert_eq!(
        numbers[1].field("parent"),
        Some(Value::U64(numbers[0].span()))
    );
    assert_eq!(numbers[0].field("parent"), None);
}

#[test]
fn an_event_has_the_number_of_its_span() {
    own_process!();
    let _session = start();
    let span = info_span!("around").entered();
    info!(count = 3, "inside");
    info!(parent: None, "outside");
    drop(span);
    let events: Vec<_> = markers()
        .into_iter()
        .filter(|seen| seen.phase == Phase::Instant)
        .collect();
    assert_eq!(events[0].span(), named("around")[0].span());
    assert_eq!(events[0].field("message"), Some("inside".into()));
    assert_eq!(events[0].name, "all::spans", "the target of the event");
    assert_eq!(events[1].field("span"), None);
}

#[test]
fn values_that_are_recorded_later_are_a_marker_of_the_span() {
    own_process!();
    let _session = start();
    let span = info_span!("late", status = tracing::field::Empty, bytes = 5);
    span.record("status", 404);
    let seen = named("late");
    assert_eq!(seen[0].field("status"), None);
    assert_eq!(seen[1].phase, Phase::Instant);
    assert_eq!(seen[1].span(), seen[0].span());
    assert_eq!(seen[1].field("status"), Some(Value::I64(404)));
    assert_eq!(seen[1].field("bytes"), None);
}

#[test]
fn explicit_parents_and_followers_are_linked_by_a_flow() {
    own_process!();
    let _session = start();
    let parent = info_span!("parent");
    let child = on_a_thread(|| info_span!(parent: &parent, "child"));
    let numbers = ["parent", "child"].map(|name| named(name)[0].span());
    let [first, second] = ["parent of", "child of"].map(|name| named(name)[0].clone());
    assert_eq!([first.span(), second.span()], numbers);
    assert_eq!(first.field("flow"), second.field("flow"));
    assert_eq!(first.foreign, Some(named("parent")[0].recorder));
    child.follows_from(&parent);
    assert_eq!(named("follows from")[0].span(), numbers[1]);
    assert_eq!(named("followed by")[0].span(), numbers[0]);
}

#[test]
fn a_stack_shows_the_spans_that_the_thread_is_in() {
    own_process!();
    let _session = start();
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    let outer = info_span!("outer").entered();
    let inner = debug_span!("inner");
    inner.in_scope(|| add_untyped_marker("in both", &category::TEST, options));
    add_untyped_marker("in outer", &category::TEST, options);
    drop(outer);
    add_untyped_marker("in none", &category::TEST, options);
    let labels = |name: &str| named(name)[0].stack.clone();
    assert_eq!(labels("in both"), ["outer", "inner"]);
    assert_eq!(labels("in outer"), ["outer"]);
    assert!(labels("in none").is_empty());
}

#[test]
fn polls_are_intervals_if_the_rules_say_so() {
    own_process!();
    let rules = RecordingRules::default().polls(true);
    let _session = start_with(rules.subscriber());
    let span = info_span!("future");
    span.in_scope(|| ());
    on_a_thread(|| span.in_scope(|| ()));
    let seen = named("future");
    let polls: Vec<_> = seen
        .iter()
        .filter(|seen| seen.phase == Phase::Interval)
        .collect();
    assert_eq!(polls.len(), 2);
    assert!(polls.iter().all(|poll| poll.span() == seen[0].span()));
    assert_ne!(
        polls[0].recorder, polls[1].recorder,
        "each is on its own thread"
    );
}

#[test]
fn levels_above_the_rules_are_not_recorded() {
    own_process!();
    let _session = start();
    assert!(!tracing::enabled!(tracing::Level::TRACE));
    trace_span!("traced").in_scope(|| ());
    debug_span!("debugged").in_scope(|| ());
    assert!(named("traced").is_empty());
    assert_eq!(named("debugged").len(), 2);
}

#[test]
fn every_span_of_many_threads_is_recorded_or_counted() {
    own_process!();
    let _session = start();
    const SPANS: u64 = 2000;
    thread::scope(|scope| {
        for _ in 0..4 {
            let spans = || (0..SPANS).for_each(|number| drop(info_span!("one", number)));
            thread::Builder::new().spawn_scoped(scope, spans).unwrap();
        }
    });
    let seen = u64::try_from(named("one").len()).unwrap();
    assert_eq!(seen + dropped(), 2 * 4 * SPANS);
}

#[test]
fn a_recursion_deeper_than_the_bound_leaves_no_span_behind() {
    own_process!();
    let _session = start();
    let mut all: Vec<_> = (0..40_u64)
        .map(|id| info_span!("level", id).entered())
        .collect();
    info!("deep");
    let outer = all.remove(5);
    drop(outer);
    while let Some(innermost) = all.pop() {
        drop(innermost);
    }
    info!("outside");
    assert!(Span::current().is_none());
    let levels = named("level");
    let events: Vec<_> = markers()
        .into_iter()
        .filter(|seen| seen.field("message").is_some())
        .collect();
    assert_eq!(levels.len(), 2 * 40);
    assert_eq!(events[0].span(), levels[31].span(), "the innermost kept");
    assert_eq!(events[1].field("span"), None);
    assert_eq!(dropped(), 0);
}
