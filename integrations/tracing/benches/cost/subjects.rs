//! The subjects of this crate's own figures: whose subscriber is installed, and whether a session
//! runs.

use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_tracing::{RecordingRules, subscriber};
use tracing::subscriber::{Interest, set_global_default};
use tracing::{Event, Metadata, Subscriber, span};
use tracing_chrome::ChromeLayerBuilder;
use tracing_subscriber::prelude::*;

/// Installs a subject. What it returns must live until the measurement is over.
pub(crate) type Install = fn() -> Box<dyn std::any::Any>;

/// The subjects by name, in the order in which they take turns.
pub(crate) const SUBJECTS: &[(&str, Install)] = &[
    ("disabled", disabled),
    ("empty", empty),
    ("profiler", profiler),
    ("profiler_polls", profiler_polls),
    ("profiler_layer", profiler_layer),
    ("peer_chrome", peer_chrome),
];

/// The profiler's subscriber without a session.
fn disabled() -> Box<dyn std::any::Any> {
    set_global_default(subscriber()).expect("it is the first");
    Box::new(())
}

fn empty() -> Box<dyn std::any::Any> {
    set_global_default(Empty).expect("it is the first");
    Box::new(())
}

fn profiler() -> Box<dyn std::any::Any> {
    set_global_default(subscriber()).expect("it is the first");
    start_session()
}

fn profiler_polls() -> Box<dyn std::any::Any> {
    let rules = RecordingRules::default().polls(true);
    set_global_default(rules.subscriber()).expect("it is the first");
    start_session()
}

fn profiler_layer() -> Box<dyn std::any::Any> {
    let subscriber = tracing_subscriber::registry().with(profiler_tracing::layer());
    set_global_default(subscriber).expect("it is the first");
    start_session()
}

/// The layer of tracing-chrome, with fields and without a file.
fn peer_chrome() -> Box<dyn std::any::Any> {
    let builder = ChromeLayerBuilder::new().writer(std::io::sink());
    let (layer, guard) = builder.include_args(true).build();
    set_global_default(tracing_subscriber::registry().with(layer)).expect("it is the first");
    Box::new(guard)
}

fn start_session() -> Box<dyn std::any::Any> {
    session::start(SessionParams::default(), StartOptions::default()).expect("a session");
    Box::new(())
}

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
