//! The names of marker types that are the starts and ends of numbered spans.
//!
//! Used by readers of profiles. `profiler_core::marker::SpanMark` writes such markers; a test of
//! `profiler-gecko`, which knows both crates, compares the names.

/// The name of the type of spans without further fields.
pub const SPAN_TYPE: &str = "Span";

/// The beginning of the names of span types that have further fields.
pub const SPAN_TYPE_PREFIX: &str = "Span ";

/// Whether markers of this type are the starts and ends of numbered spans. The number is the field
/// `span`.
pub fn is_span_type(name: &str) -> bool {
    name == SPAN_TYPE || name.starts_with(SPAN_TYPE_PREFIX)
}
