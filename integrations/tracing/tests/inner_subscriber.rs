//! The program's own subscriber goes on working, with and without a session.

use std::future::Future;
use std::sync::Mutex;
use std::task::{Context, Waker};

use profiler_core::session::DropReason;
use profiler_tracing::{RecordingRules, around};
use recorded_session::{Phase, RunningSession, dropped, dropped_for, named};
use test_support::own_process;
use tracing::subscriber::with_default;
use tracing::{Instrument, Span, debug, debug_span, error, info, info_span, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::support::{Written, beyond_filters, on_a_thread, start_with};

/// A fmt subscriber with a filter, that writes everything that happens to spans.
fn fmt(written: &Written, filter: &str) -> impl tracing::Subscriber + Send + Sync + use<> {
    let written = Mutex::new(written.clone());
    tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_span_events(FmtSpan::NEW | FmtSpan::ENTER | FmtSpan::EXIT)
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(written)
        .finish()
}

/// Spans and events of several levels, with all kinds of parents.
fn scenario() {
    let outer = info_span!("outer", id = 1, late = tracing::field::Empty).entered();
    debug!("hidden");
    let hidden = debug_span!("hidden", id = 2).entered();
    info!(value = 5, "in outer");
    let in_hidden = Span::current();
    let child = info_span!("child of hidden").entered();
    warn!("in child");
    let explicit = info_span!(parent: &*hidden, "explicit child of hidden");
    explicit.follows_from(&*hidden);
    explicit.follows_from(&*outer);
    error!(parent: &explicit, "in explicit");
    error!(parent: &*hidden, "in hidden");
    outer.record("late", "now");
    let current = Span::current();
    drop((child, hidden));
    current.in_scope(|| info!("in the span that was current"));
    in_hidden.in_scope(|| info!("in the span that was current in hidden"));
    on_a_thread(|| explicit.in_scope(|| info!("on another thread")));
    drop(outer);
    info!("at the end");
}

fn written_with(filter: &str, rules: Option<RecordingRules>) -> String {
    let written = Written::default();
    let inner = fmt(&written, filter);
    match rules {
        Some(rules) => with_default(rules.around(inner), scenario),
        None => with_default(inner, scenario),
    }
    written.text()
}

#[test]
fn the_inner_subscriber_writes_the_same_as_without_the_profiler() {
    own_process!();
    let filters = [
        "info",
        "debug",
        "off",
        "all::inner_subscriber[outer]=debug,warn",
    ];
    let alone = filters.map(|filter| written_with(filter, None));
    assert!(
        alone[0].contains("in child") && !alone[0].contains("hidden "),
        "{}",
        alone[0]
    );
    let check = |beyond| {
        let rules = RecordingRules::default().beyond_filters(beyond);
        for (filter, alone) in filters.iter().zip(&alone) {
            assert_eq!(&written_with(filter, Some(rules)), alone, "{filter}");
        }
    };
    check(true);
    let session = RunningSession::start();
    check(false);
    drop(session);
    let _session = RunningSession::start();
    check(true);
    assert_eq!(
        named("outer")
            .iter()
            .filter(|seen| seen.phase == Phase::Start)
            .count(),
        4
    );
    assert_eq!(dropped(), 0);
}

#[test]
fn a_span_that_both_want_ends_once() {
    own_process!();
    let written = Written::default();
    let _session = start_with(around(fmt(&written, "info")));
    let span = info_span!("both");
    let clone = span.clone();
    drop(span);
    on_a_thread(move || drop(clone));
    let seen = named("both");
    assert_eq!(
        seen.iter().map(|seen| seen.phase).collect::<Vec<_>>(),
        [Phase::Start, Phase::End]
    );
    assert_eq!(seen[0].span(), seen[1].span());
    assert_eq!(seen[1].foreign, Some(seen[0].recorder));
}

#[test]
fn a_future_that_is_polled_on_two_threads_is_one_span() {
    own_process!();
    let written = Written::default();
    let _session = start_with(beyond_filters(fmt(&written, "warn")));
    let pending = std::future::pending::<()>();
    let mut future = Box::pin(pending.instrument(info_span!("task", id = 7)));
    for _ in 0..2 {
        let poll = || {
            let mut context = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut context).is_pending()
        };
        assert!(on_a_thread(poll));
    }
    drop(future);
    let phases: Vec<_> = named("task").iter().map(|seen| seen.phase).collect();
    assert_eq!(phases, [Phase::Start, Phase::End]);
}

#[test]
fn more_open_spans_than_a_table_has_places_are_all_recorded() {
    own_process!();
    let inner = tracing_subscriber::registry();
    let _session = start_with(around(inner));
    let open: Vec<_> = (0..50_000).map(|_| info_span!("many")).collect();
    drop(open);
    assert_eq!(named("many").len() as u64 + dropped(), 100_000);
    assert_eq!(dropped_for(DropReason::NoDefinitions), 0);
}
