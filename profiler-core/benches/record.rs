//! Benchmark: the cost of recording, with a session and without one, compared with a read of the
//! clock.
//!
//! For daily work. `figures -- record` of `integration-tests` measures the promised figures. The
//! session has the default limit, so chunks are switched and recycled as in an application.

use std::hint::black_box;
use std::num::NonZeroU64;

use criterion::{Criterion, criterion_group, criterion_main};
use profiler_core::counter::Counter;
use profiler_core::flow::Flow;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{
    MarkerOptions, MarkerStack, ProfilerMarker, add_text_marker, category,
};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_core::{flow, label, marker, scope, text_marker};

static ITEMS: Counter = Counter::new("items", "Other", "items handled");

#[derive(serde::Serialize)]
struct Request<'a> {
    bytes: u64,
    path: &'a str,
}

impl ProfilerMarker for Request<'_> {
    const TYPE_NAME: &'static str = "Request";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_label_format("bytes", "Size", Format::Bytes)
            .key_label_format("path", "Path", Format::FilePath)
    }
}

fn instant() {
    marker!("instant", &category::TEST);
}

/// Without a session, its cost is the caller's read of the clock; a scope does not read the clock
/// then.
fn interval() {
    let start = Timestamp::now();
    marker!(
        "interval",
        &category::TEST,
        MarkerOptions::interval_until_now_from(start)
    );
}

fn text() {
    text_marker!(
        "text",
        &category::TEST,
        MarkerOptions::default(),
        black_box("sixteen letters!")
    );
}

fn typed() {
    let (bytes, path) = black_box((70_000, "src/bin/figures/"));
    marker!(
        "typed",
        &category::IO,
        MarkerOptions::default(),
        &Request { bytes, path }
    );
}

/// One marker of a flow that exists.
fn flow_step() {
    flow!(step black_box(Flow::from(NonZeroU64::MAX)), "flow");
}

/// A flow without markers.
fn new_flow() {
    black_box(Flow::new());
}

fn scope() {
    let _scope = scope!("scope", &category::TEST);
}

fn dynamic() {
    add_text_marker(
        black_box("name"),
        &category::TEST,
        MarkerOptions::default(),
        "sixteen letters!",
    );
}

fn counter() {
    ITEMS.add(black_box(1));
}

/// Opens and closes a label.
fn label() {
    let _label = label!("label", &category::TEST);
}

/// Records a marker while one label is open.
fn with_labels() {
    let _label = label!("label", &category::TEST);
    marker!(
        "with labels",
        &category::TEST,
        MarkerOptions::default().with_stack(MarkerStack::Labels)
    );
}

const KINDS: [(&str, fn()); 11] = [
    ("instant", instant),
    ("interval", interval),
    ("text", text),
    ("typed", typed),
    ("flow step", flow_step),
    ("new flow", new_flow),
    ("scope", scope),
    ("dynamic", dynamic),
    ("counter", counter),
    ("label", label),
    ("with labels", with_labels),
];

fn disabled(c: &mut Criterion) {
    let mut group = c.benchmark_group("record_disabled");
    for (name, kind) in KINDS {
        group.bench_function(name, |b| b.iter(kind));
    }
    group.finish();
}

fn enabled(c: &mut Criterion) {
    session::start(SessionParams::default(), StartOptions::default()).expect("a session starts");
    let mut group = c.benchmark_group("record");
    group.bench_function("clock", |b| b.iter(Timestamp::now));
    for (name, kind) in KINDS {
        group.bench_function(name, |b| b.iter(kind));
    }
    group.finish();
    session::stop();
}

criterion_group!(benches, disabled, enabled);
criterion_main!(benches);
