//! The layer for the application's own traces: a thread works for the trace of the span that it is
//! inside.

use std::future::Future;
use std::pin::pin;
use std::task;

use profiler_core::future::RecordFuture;
use profiler_core::trace::{TraceContext, current_trace};
use tracing::span::{Attributes, Id};
use tracing::{Subscriber, info_span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::support::on_a_thread;

/// What a library for traces keeps for a span.
struct SpanTrace(TraceContext);

/// Stands for such a library: spans called "request" begin traces, those called "step" are spans in
/// them, and it does not know others.
struct Library;

fn context(trace: u8, span: u8) -> TraceContext {
    TraceContext::from_bytes([trace; 16], [span; 8], 1).unwrap()
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Library {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, spans: Context<'_, S>) {
        let known = match attributes.metadata().name() {
            "request" => SpanTrace(context(1, 1)),
            "step" => SpanTrace(context(1, 2)),
            _ => return,
        };
        spans.span(id).unwrap().extensions_mut().insert(known);
    }
}

/// Runs `body` with the layer.
fn with_layer(body: impl FnOnce()) {
    let traces = profiler_tracing::trace_layer(|span| Some(span.get::<SpanTrace>()?.0));
    let subscriber = tracing_subscriber::registry().with(Library).with(traces);
    tracing::subscriber::with_default(subscriber, body);
}

#[test]
fn a_span_without_a_trace_keeps_that_of_the_future_around_it() {
    with_layer(|| {
        let future = async {
            info_span!("unknown").in_scope(|| assert_eq!(current_trace(), Some(context(3, 3))));
            current_trace()
        };
        let future = pin!(future.in_trace(context(3, 3)));
        let polled = future.poll(&mut task::Context::from_waker(task::Waker::noop()));
        assert_eq!(polled, task::Poll::Ready(Some(context(3, 3))));
    });
}

#[test]
fn a_root_span_without_a_trace_inside_another_span_changes_nothing() {
    with_layer(|| {
        let _request = info_span!("request").entered();
        let root = info_span!(parent: None, "unknown").entered();
        assert_eq!(current_trace(), Some(context(1, 1)));
        drop(root);
        assert_eq!(current_trace(), Some(context(1, 1)));
    });
}

#[test]
fn a_span_that_another_thread_enters_has_the_trace_of_the_span_around_it() {
    with_layer(|| {
        let request = info_span!("request");
        let inner = info_span!(parent: &request, "unknown");
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let seen = on_a_thread(move || {
            tracing::dispatcher::with_default(&dispatch, || {
                (inner.in_scope(current_trace), current_trace())
            })
        });
        assert_eq!(seen, (Some(context(1, 1)), None));
    });
}

#[test]
fn a_thread_works_for_the_trace_of_the_span_that_it_is_inside() {
    with_layer(|| {
        assert_eq!(current_trace(), None);
        let request = info_span!("request").entered();
        assert_eq!(current_trace(), Some(context(1, 1)));
        {
            let _unknown = info_span!("unknown").entered();
            assert_eq!(
                current_trace(),
                Some(context(1, 1)),
                "that of the span around"
            );
            let _step = info_span!("step").entered();
            assert_eq!(current_trace(), Some(context(1, 2)));
            assert_eq!(on_a_thread(current_trace), None);
        }
        assert_eq!(current_trace(), Some(context(1, 1)));
        let request = request.exit();
        assert_eq!(current_trace(), None);
        request.in_scope(|| assert_eq!(current_trace(), Some(context(1, 1))));
        assert_eq!(current_trace(), None);
    });
}
