//! A layer that lets threads work for the application's traces: those of OpenTelemetry, of a
//! header, or of any other source.
//!
//! Called by `tracing-subscriber`. The application's function knows the trace of a span, so this
//! crate depends on no library for traces. Nothing is kept per thread: after a thread has left a
//! span, the spans around it are asked. Invariants: a thread that leaves the outermost span with a
//! trace works for no trace; a span without a trace, and without one around it, changes nothing.

use std::fmt;

use profiler_core::trace::{TraceContext, set_trace};
use tracing_core::Subscriber;
use tracing_core::span::Id;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{Extensions, LookupSpan, SpanRef};

/// Lets a thread work for the trace of the span that it is inside. Made by [`trace_layer`].
pub struct TraceLayer<F> {
    trace_of: F,
}

impl<F> fmt::Debug for TraceLayer<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TraceLayer").finish_non_exhaustive()
    }
}

/// A layer with which samples and markers carry the application's own trace, see
/// [`profiler_core::trace`].
///
/// `trace_of` returns the trace of a span, from the data that other layers keep in the span's
/// extensions. A span for which it returns `None` belongs to the trace of the span around it. It is
/// called each time that a thread enters or leaves a span, also without a session, because readers
/// outside of the process see the trace, too.
///
/// With `tracing-opentelemetry`, the data is `OtelData`:
///
/// ```ignore
/// use profiler_core::trace::TraceContext;
/// use tracing_opentelemetry::OtelData;
///
/// let traces = profiler_tracing::trace_layer(|span| {
///     let data = span.get::<OtelData>()?;
///     let (trace, span) = (data.trace_id()?, data.span_id()?);
///     TraceContext::from_bytes(trace.to_bytes(), span.to_bytes(), 1)
/// });
/// let subscriber = registry().with(opentelemetry_layer).with(traces);
/// ```
///
/// The layer wants every span. Give it the filter of the layer that has the traces
/// (`Layer::with_filter`), so that it enables no others. It is independent of
/// [`layer`](crate::layer()) and [`around`](crate::around).
pub const fn trace_layer<F>(trace_of: F) -> TraceLayer<F>
where
    F: Fn(&Extensions<'_>) -> Option<TraceContext> + 'static,
{
    TraceLayer { trace_of }
}

impl<F> TraceLayer<F>
where
    F: Fn(&Extensions<'_>) -> Option<TraceContext>,
{
    /// The trace of a span, or of the nearest span around it that has one.
    fn trace_around<'a, S: LookupSpan<'a>>(
        &self,
        span: Option<SpanRef<'a, S>>,
    ) -> Option<TraceContext> {
        let mut spans = span.iter().flat_map(SpanRef::scope);
        spans.find_map(|span| (self.trace_of)(&span.extensions()))
    }
}

impl<S, F> Layer<S> for TraceLayer<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    F: Fn(&Extensions<'_>) -> Option<TraceContext> + 'static,
{
    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if let Some(trace) = self.trace_around(context.span(id)) {
            set_trace(Some(trace));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if self.trace_around(context.span(id)).is_some() {
            set_trace(self.trace_around(context.lookup_current()));
        }
    }
}
