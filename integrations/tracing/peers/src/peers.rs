//! Other profilers, each with the fields of spans, and without a file or a connection.

use std::hint::black_box;

use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::local::LocalSpan;
use fastrace::{Event, Span, prelude::SpanContext};
use tracing_chrome::ChromeLayerBuilder;
use tracing_perfetto::PerfettoLayer;
use tracing_subscriber::prelude::*;
use tracing_tracy::{DefaultConfig, TracyLayer};

use crate::operations::{Cost, nanoseconds, nanoseconds_of, two_clock_reads};
use crate::subjects::{Subject, with};

/// Spans of fastrace below one root.
const SPANS_OF_ROOT: u32 = 100;

/// The other profilers.
pub(crate) const PEERS: &[Subject] = &[
    Subject {
        name: "peer_chrome",
        measure: chrome,
    },
    Subject {
        name: "peer_tracy",
        measure: tracy,
    },
    Subject {
        name: "peer_perfetto",
        measure: perfetto,
    },
    Subject {
        name: "peer_fastrace",
        measure: fastrace,
    },
];

fn chrome() -> Vec<Cost> {
    let builder = ChromeLayerBuilder::new().writer(std::io::sink());
    let (layer, _guard) = builder.include_args(true).build();
    with(tracing_subscriber::registry().with(layer))
}

fn tracy() -> Vec<Cost> {
    with(tracing_subscriber::registry().with(TracyLayer::new(DefaultConfig::default())))
}

fn perfetto() -> Vec<Cost> {
    let layer = PerfettoLayer::new(std::io::sink as fn() -> std::io::Sink);
    with(tracing_subscriber::registry().with(layer.with_debug_annotations(true)))
}

/// Drops what it gets.
struct NoReporter;

impl Reporter for NoReporter {
    fn report(&mut self, _: Vec<SpanRecord>) {}
}

/// fastrace has an interface of its own. Its spans need a root, which is reported when it ends, so
/// the cost of a root is divided among [`SPANS_OF_ROOT`] spans.
fn fastrace() -> Vec<Cost> {
    fastrace::set_reporter(NoReporter, Config::default());
    let bytes = black_box(70_000_u64);
    let in_root = |operation: &dyn Fn()| {
        nanoseconds_of(SPANS_OF_ROOT, || {
            let root = Span::root("root", SpanContext::random());
            let _local = root.set_local_parent();
            (0..SPANS_OF_ROOT).for_each(|_| operation());
        })
    };
    vec![
        ("two_clock_reads", nanoseconds(two_clock_reads)),
        (
            "span",
            in_root(&|| drop(LocalSpan::enter_with_local_parent("span"))),
        ),
        (
            "span_with_field",
            in_root(&|| {
                let span = LocalSpan::enter_with_local_parent("span with a field");
                drop(span.with_property(|| ("bytes", bytes.to_string())));
            }),
        ),
        (
            "event",
            in_root(&|| {
                LocalSpan::add_event(
                    Event::new("event").with_property(|| ("bytes", bytes.to_string())),
                );
            }),
        ),
    ]
}
