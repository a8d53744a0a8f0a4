//! The names of marker types that are the starts and ends of numbered spans, and those of what has
//! the application's trace.
//!
//! Used by readers of profiles. `profiler_core::marker::SpanMark` writes such markers; a test of
//! `profiler-gecko`, which knows both crates, compares the names.

/// The name of the type of spans without further fields.
pub const SPAN_TYPE: &str = "Span";

/// The beginning of the names of span types that have further fields.
pub const SPAN_TYPE_PREFIX: &str = "Span ";

/// The name of the type of the intervals in which the samples of a thread have the same trace and
/// the same group.
pub const CONTEXT_TYPE: &str = "SampleContext";

/// The field with the trace of a marker, or of the samples in an interval: 32 hexadecimal digits.
pub const TRACE_ID_KEY: &str = "traceId";

/// The field with the span in that trace: 16 hexadecimal digits.
pub const SPAN_ID_KEY: &str = "spanId";

/// Whether markers of this type are the starts and ends of numbered spans. The number is the field
/// `span`.
pub fn is_span_type(name: &str) -> bool {
    name == SPAN_TYPE || name.starts_with(SPAN_TYPE_PREFIX)
}
