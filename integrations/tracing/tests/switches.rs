//! Whether the profiler is interested in call sites follows the sessions.

use profiler_tracing::subscriber;
use recorded_session::{RunningSession, named};
use test_support::own_process;
use test_support::patience::until;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{Interest, with_default};
use tracing::{Event, Metadata, Subscriber, info, span};
use tracing_subscriber::prelude::*;

use crate::support::{beyond_filters, start};

/// A subscriber that wants nothing, and panics if it gets anything.
struct Never;

impl Subscriber for Never {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        panic!("a span")
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {
        panic!("a value")
    }
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {
        panic!("a link")
    }
    fn event(&self, _: &Event<'_>) {
        panic!("an event")
    }
    fn enter(&self, _: &span::Id) {
        panic!("an enter")
    }
    fn exit(&self, _: &span::Id) {
        panic!("an exit")
    }
}

fn is_info_on() -> bool {
    tracing::enabled!(tracing::Level::INFO)
}

#[test]
fn call_sites_are_of_interest_while_a_session_runs() {
    own_process!();
    tracing::subscriber::set_global_default(beyond_filters(Never)).unwrap();
    assert!(!is_info_on());
    assert_eq!(LevelFilter::current(), LevelFilter::OFF);
    for _ in 0..3 {
        let session = start();
        assert!(until(is_info_on));
        let span = tracing::info_span!("in a session").entered();
        info!("in it");
        drop(span);
        assert!(!named("in a session").is_empty());
        drop(session);
        assert!(until(|| !is_info_on()));
        assert!(until(|| LevelFilter::current() == LevelFilter::OFF));
    }
}

#[test]
fn a_subscriber_that_is_the_default_of_one_thread_is_asked_again() {
    own_process!();
    with_default(subscriber(), || {
        assert!(!is_info_on());
        let session = start();
        assert!(
            until(is_info_on),
            "the profiler's thread has another default"
        );
        drop(session);
        assert!(until(|| !is_info_on()));
    });
}

#[test]
fn a_span_that_is_open_at_a_stop_is_closed_and_left_without_harm() {
    own_process!();
    tracing::subscriber::set_global_default(beyond_filters(Never)).unwrap();
    let session = start();
    let open = tracing::info_span!("open").entered();
    let clone = open.clone();
    drop(session);
    let _session = start();
    drop(open);
    clone.record("nothing", 1);
    clone.in_scope(|| ());
    drop(clone);
    assert_eq!(named("open").len(), 1, "its end");
}

/// Whether call sites are of interest during a session, and only then.
fn assert_followed() {
    assert!(!is_info_on());
    let session = start();
    assert!(until(is_info_on));
    drop(session);
    assert!(until(|| !is_info_on()));
}

#[test]
fn a_subscriber_in_a_box_is_asked_again() {
    own_process!();
    let boxed: Box<dyn Subscriber + Send + Sync> = Box::new(subscriber());
    tracing::subscriber::set_global_default(boxed).unwrap();
    assert_followed();
}

#[test]
fn a_subscriber_in_an_arc_is_asked_again() {
    own_process!();
    let shared: std::sync::Arc<dyn Subscriber + Send + Sync> = std::sync::Arc::new(subscriber());
    tracing::subscriber::set_global_default(shared).unwrap();
    assert_followed();
}

#[test]
fn a_layer_in_a_boxed_subscriber_is_asked_again() {
    own_process!();
    let layered = tracing_subscriber::registry().with(profiler_tracing::layer());
    let boxed: Box<dyn Subscriber + Send + Sync> = Box::new(layered);
    tracing::subscriber::set_global_default(boxed).unwrap();
    let session = start();
    tracing::info_span!("in a session").in_scope(|| ());
    assert_eq!(named("in a session").len(), 2);
    drop(session);
}

/// A subscriber that wants everything.
fn wants_all() -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry()
}

#[test]
fn a_switch_leaves_the_programs_own_subscriber_alone() {
    own_process!();
    drop(subscriber());
    with_default(subscriber(), || ());
    with_default(wants_all(), || {
        assert!(is_info_on());
        for _ in 0..3 {
            let session = RunningSession::start();
            drop(session);
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(is_info_on());
            assert_eq!(LevelFilter::current(), LevelFilter::TRACE);
        }
    });
}
