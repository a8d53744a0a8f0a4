//! The filters of the program's own subscriber are asked as without the profiler, and decide as
//! without it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_tracing::{RecordingRules, around};
use recorded_session::{RunningSession, dropped, named};
use test_support::own_process;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::{Interest, NoSubscriber, with_default};
use tracing::{Event, Metadata, Span, Subscriber, debug, debug_span, info, info_span, span, warn};
use tracing_subscriber::filter::LevelFilter as LayerLevel;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, fmt, registry};

use crate::support::{Written, beyond_filters, start_with};

/// A subscriber that writes to `written` what the filter lets through.
fn filtered(written: &Written, filter: &str) -> impl Subscriber + Send + Sync + use<> {
    fmt()
        .with_ansi(false)
        .without_time()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(Mutex::new(written.clone()))
        .finish()
}

/// What is written of records of the crate `log`, with the profiler or without.
fn log_lines(filter: &str, rules: Option<RecordingRules>) -> String {
    let written = Written::default();
    let records = || {
        log::info!(target: "mine", "wanted {}", 1);
        log::info!(target: "noisy", "unwanted {}", 2);
        log::debug!(target: "mine", "too fine {}", 3);
        info!(target: "mine", "a call site");
    };
    let inner = filtered(&written, filter);
    match rules {
        Some(rules) => with_default(rules.around(inner), records),
        None => with_default(inner, records),
    }
    written.text()
}

#[test]
fn records_of_the_crate_log_are_written_as_without_the_profiler() {
    own_process!();
    tracing_log::LogTracer::init().unwrap();
    let filters = ["mine=info", "info,noisy=off", "off", "warn"];
    let alone = filters.map(|filter| log_lines(filter, None));
    let check = || {
        for beyond in [false, true] {
            let rules = RecordingRules::default().beyond_filters(beyond);
            assert_eq!(filters.map(|filter| log_lines(filter, Some(rules))), alone);
        }
    };
    assert!(alone[0].contains("wanted 1"), "{}", alone[0]);
    assert!(!alone[1].contains("unwanted 2"), "{}", alone[1]);
    check();
    let _session = RunningSession::start();
    check();
}

/// A subscriber that counts the questions and the events; it lets every second question through.
struct Counting {
    interest: fn() -> Interest,
    hint: LevelFilter,
}

static QUESTIONS: AtomicUsize = AtomicUsize::new(0);
static EVENTS: AtomicUsize = AtomicUsize::new(0);

/// The counts since the last call.
fn take_counts() -> [usize; 2] {
    [&QUESTIONS, &EVENTS].map(|count| count.swap(0, Ordering::SeqCst))
}

impl Subscriber for Counting {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        (self.interest)()
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.hint)
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        QUESTIONS.fetch_add(1, Ordering::SeqCst).is_multiple_of(2)
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        EVENTS.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn counts_of(interest: fn() -> Interest) -> [usize; 2] {
    let hint = LevelFilter::INFO;
    take_counts();
    with_default(beyond_filters(Counting { interest, hint }), || {
        (0..10).for_each(|_| info!("counted"));
        take_counts()
    })
}

#[test]
fn a_filter_is_asked_once_for_each_event() {
    own_process!();
    let all = || [Interest::sometimes, Interest::always, Interest::never].map(counts_of);
    let expected = [[10, 5], [0, 10], [0, 0]];
    assert_eq!(all(), expected);
    let session = RunningSession::start();
    assert_eq!(all(), expected);
    assert_eq!(named("all::host_filters").len(), 3 * 10, "all are recorded");
    drop(session);
    assert_eq!(all(), expected);
}

#[test]
fn a_subscriber_that_has_only_a_largest_level_gets_no_finer_event() {
    own_process!();
    let _session = RunningSession::start();
    let (interest, hint) = (Interest::always as fn() -> Interest, LevelFilter::WARN);
    with_default(beyond_filters(Counting { interest, hint }), || {
        take_counts();
        info!("too fine");
        assert_eq!(take_counts(), [0, 0]);
        warn!("wanted");
        assert_eq!(take_counts(), [0, 1]);
    });
    assert_eq!(named("all::host_filters").len(), 2);
}

#[test]
fn a_layer_with_a_filter_gets_its_events_beside_another_subscriber() {
    own_process!();
    let _session = RunningSession::start();
    let written = Written::default();
    let writer = Mutex::new(written.clone());
    let layer = fmt::layer().with_ansi(false).with_writer(writer);
    let inner = registry().with(layer.with_filter(LayerLevel::WARN));
    let _other = tracing::Dispatch::new(NoSubscriber::new());
    with_default(beyond_filters(inner), || {
        for _ in 0..2 {
            info!("hidden");
            warn!("shown");
        }
    });
    assert_eq!(written.text().matches("shown").count(), 2);
    assert!(!written.text().contains("hidden"), "{}", written.text());
}

#[test]
fn the_current_span_is_one_that_the_registry_knows() {
    own_process!();
    let written = Written::default();
    let inner = filtered(&written, "info");
    let _session = start_with(beyond_filters(inner));
    let outer = info_span!("outer", user = tracing::field::Empty).entered();
    let _hidden = debug_span!("hidden").entered();
    assert_eq!(Span::current().id(), outer.id());
    Span::current().record("user", "alice");
    info!("inside");
    assert!(written.text().contains("alice"), "{}", written.text());
    assert_eq!(
        named("hidden")[0].field("parent"),
        named("outer")[0].field("span")
    );
}

#[test]
fn only_what_the_inner_subscriber_wants_is_recorded_by_default() {
    own_process!();
    let written = Written::default();
    let subscriber = around(filtered(&written, "info"));
    let _session = start_with(subscriber);
    let outer = info_span!("outer").entered();
    let hidden = debug_span!("hidden");
    assert!(hidden.is_disabled());
    assert_eq!(hidden.or_current().id(), outer.id());
    debug!("hidden");
    info!("shown");
    assert_eq!(named("all::host_filters").len(), 1);
    assert!(named("hidden").is_empty() && !named("outer").is_empty());
    assert_eq!(dropped(), 0);
}
