//! Test of a build with the engine and without the feature `enabled`: the recording macros do not
//! evaluate their arguments. Run it with
//! `cargo test -p profiler-core --no-default-features --features engine --test all`.

use std::pin::pin;
use std::task::{Context, Waker};

use profiler_core::flow::Flow;
use profiler_core::future::RecordFuture;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::{flow, label, marker, scope, text_marker};

fn evaluated() -> MarkerOptions {
    panic!("an argument of a disabled macro was evaluated")
}

#[label::function]
fn labelled() {}

#[test]
fn a_disabled_macro_evaluates_and_records_nothing_even_while_a_session_runs() {
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
    marker!("off", &category::OTHER, evaluated());
    text_marker!("off", &category::OTHER, evaluated(), "text");
    let _scope = scope!("off");
    let _label = label!("off");
    let mut future = pin!(async {}.scoped("off").in_flow(Flow::new()));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready());
    flow!(begin Flow::new(), "off", options = evaluated());
    labelled();
    let reader =
        profiler_core::internal::reader::PoolReader::open(session::pool_file().unwrap()).unwrap();
    assert_eq!(reader.snapshot().unwrap().counts().recorded(), 0);
    session::stop();
}
