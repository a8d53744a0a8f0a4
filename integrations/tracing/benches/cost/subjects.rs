//! The subjects of this crate's own figures: whose subscriber is installed, and whether a session
//! runs.

use profiler_core::internal::reader::PoolReader;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_tracing::{RecordingRules, around, subscriber};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber, span};
use tracing_subscriber::prelude::*;

use crate::operations::{self, Cost};

/// What is measured in a process of its own.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    /// Its name in the figures.
    pub(crate) name: &'static str,
    /// Installs it, and measures all operations.
    pub(crate) measure: fn() -> Vec<Cost>,
}

/// The subjects in the order in which they take turns.
pub(crate) const SUBJECTS: &[Subject] = &[
    Subject {
        name: "disabled",
        measure: disabled,
    },
    Subject {
        name: "empty",
        measure: empty,
    },
    Subject {
        name: "profiler",
        measure: profiler,
    },
    Subject {
        name: "profiler_polls",
        measure: profiler_polls,
    },
    Subject {
        name: "profiler_layer",
        measure: profiler_layer,
    },
    Subject {
        name: "registry",
        measure: registry,
    },
    Subject {
        name: "registry_around_disabled",
        measure: registry_around_disabled,
    },
    Subject {
        name: "registry_layer_disabled",
        measure: registry_layer_disabled,
    },
    Subject {
        name: "registry_around",
        measure: registry_around,
    },
];

/// Installs a subscriber, and measures all operations.
pub(crate) fn with(subscriber: impl Subscriber + Send + Sync) -> Vec<Cost> {
    set_global_default(subscriber).expect("it is the first");
    operations::measure_all()
}

/// Installs a subscriber, and measures all operations while a session runs.
fn recorded(subscriber: impl Subscriber + Send + Sync) -> Vec<Cost> {
    session::start(SessionParams::default(), StartOptions::default()).expect("a session");
    let mut costs = with(subscriber);
    let pool = session::pool_file().expect("a session runs");
    let pool = PoolReader::open(pool).expect("a pool");
    let counts = pool.snapshot().expect("a valid pool").counts();
    let all = counts.recorded() + counts.dropped.total();
    costs.push((
        "dropped_pct",
        counts.dropped.total() as f64 * 100.0 / all as f64,
    ));
    costs
}

/// The profiler's subscriber without a session.
fn disabled() -> Vec<Cost> {
    with(subscriber())
}

fn empty() -> Vec<Cost> {
    with(Empty)
}

fn profiler() -> Vec<Cost> {
    recorded(subscriber())
}

fn profiler_polls() -> Vec<Cost> {
    recorded(RecordingRules::default().polls(true).subscriber())
}

fn profiler_layer() -> Vec<Cost> {
    recorded(tracing_subscriber::registry().with(profiler_tracing::layer()))
}

/// A program with a registry and a layer of its own, which does nothing.
fn registry() -> Vec<Cost> {
    with(tracing_subscriber::registry().with(EmptyLayer))
}

/// The same with the profiler's subscriber around it, and no session.
fn registry_around_disabled() -> Vec<Cost> {
    with(around(tracing_subscriber::registry().with(EmptyLayer)))
}

/// The same with the profiler's layer, and no session.
fn registry_layer_disabled() -> Vec<Cost> {
    with(
        tracing_subscriber::registry()
            .with(EmptyLayer)
            .with(profiler_tracing::layer()),
    )
}

/// The same with the profiler's subscriber around it, and a session.
fn registry_around() -> Vec<Cost> {
    recorded(around(tracing_subscriber::registry().with(EmptyLayer)))
}

/// A layer that does nothing.
struct EmptyLayer;

impl<S: Subscriber> tracing_subscriber::Layer<S> for EmptyLayer {}

/// A subscriber that wants everything and does nothing.
struct Empty;

impl Subscriber for Empty {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
