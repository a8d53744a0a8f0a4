//! Figures: the cost of metrics with this crate's recorder and with the program's own alone.
//!
//! ```text
//! cargo bench -p profiler-metrics
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! The first rows are the cost while no session runs. `core` is a counter of the profiler without
//! `metrics`; the peer is the recorder of a Prometheus exporter.

#[path = "../../log/benches/cost/turns.rs"]
mod turns;

use std::hint::black_box;

use metrics::{Recorder, counter, gauge, histogram};
use metrics_exporter_prometheus::PrometheusBuilder;
use profiler_core::counter::Counter;
use profiler_core::marker;
use profiler_core::marker::category;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_metrics::{alone, around};

use crate::turns::Operations;

fn main() {
    turns::run(
        "metrics",
        &[
            ("disabled", disabled),
            ("inner_alone", inner_alone),
            ("disabled_around_inner", disabled_around_inner),
            ("core", core),
            ("profiler", profiler),
            ("profiler_around_inner", profiler_around_inner),
        ],
    );
}

fn start_session() {
    session::start(SessionParams::default(), StartOptions::default()).expect("a session");
    // A thread that has recorded an entry finds the session without what all threads share.
    marker!("start", &category::TEST);
}

fn install(recorder: impl Recorder + Sync + 'static) {
    let installed = metrics::set_global_recorder(recorder);
    assert!(installed.is_ok(), "it is the first");
}

fn prometheus() -> impl Recorder + Sync + 'static {
    PrometheusBuilder::new().build_recorder()
}

fn disabled() -> Operations {
    install(alone());
    operations()
}

fn inner_alone() -> Operations {
    install(prometheus());
    operations()
}

fn disabled_around_inner() -> Operations {
    install(around(prometheus()));
    operations()
}

fn core() -> Operations {
    static COUNTER: Counter = Counter::new("count", "Metrics", "");
    start_session();
    vec![("increment", Box::new(|| COUNTER.add(black_box(1))))]
}

fn profiler() -> Operations {
    install(alone());
    start_session();
    operations()
}

fn profiler_around_inner() -> Operations {
    install(around(prometheus()));
    start_session();
    operations()
}

fn operations() -> Operations {
    let (count, level) = (counter!("count"), gauge!("level"));
    let values = histogram!("values");
    vec![
        ("increment", Box::new(move || count.increment(black_box(1)))),
        ("gauge_set", Box::new(move || level.set(black_box(7.0)))),
        ("histogram", Box::new(move || values.record(black_box(7.0)))),
        (
            "macro_increment",
            Box::new(|| counter!("by macro", "label" => "value").increment(black_box(1))),
        ),
    ]
}
