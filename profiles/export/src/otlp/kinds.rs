//! The kinds of markers: which of them are spans, and which belong to a span.
//!
//! Used by [`super::thread_spans`]. The crates that record spans for `tracing` and `tokio` define
//! types of their own; their names and fields are the interface that is read here.

use std::borrow::Cow;

use profiler_json::span_types::{SPAN_TYPE_PREFIX, is_span_type};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::identity::{SpanId, SpanRef, TraceId};
use profiler_reader::{RawMarker, TraceIds, is_sample_context};

/// What a marker is to a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerKind {
    /// The start, the end or both of a numbered span whose parent is known by the place where it
    /// was recorded.
    Plain { number: u64 },
    /// The start, the end or both of a span of `tracing`, or further values of it.
    Traced { number: u64, parent: Option<u64> },
    /// The time in which a thread was inside a span.
    Poll { number: u64 },
    /// One side of a relation of two spans.
    Relation { number: u64, other: u64 },
    /// One end of a flow.
    Flow { number: Option<u64> },
    /// A detail of a span.
    Detail { number: u64 },
    /// An event of `tracing`.
    Event { number: Option<u64> },
    /// The time in which the samples of a thread have the same context, and the span of the
    /// application in it.
    Context { span: Option<SpanRef> },
    /// A statement of the profiler about itself.
    OfProfiler,
    /// Any other marker.
    Other,
}

/// The fields of a payload that determine its kind.
#[derive(Deserialize)]
struct Fields<'m> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'m, str>,
    #[serde(borrow)]
    span: Option<&'m RawValue>,
    #[serde(borrow)]
    parent: Option<&'m RawValue>,
    #[serde(borrow)]
    other: Option<&'m RawValue>,
}

impl MarkerKind {
    pub(super) fn of(marker: &RawMarker<'_>) -> Self {
        if marker.data.is_some_and(is_sample_context) {
            let span = application_span(marker);
            return Self::Context { span };
        }
        let fields = marker.data.and_then(|data| serde_json::from_str(data).ok());
        fields.map_or(Self::Other, |fields: Fields<'_>| Self::of_fields(&fields))
    }

    fn of_fields(fields: &Fields<'_>) -> Self {
        let number = number(fields.span);
        let parent = self::number(fields.parent);
        match (fields.kind.as_ref(), number) {
            (kind, Some(number)) if kind.starts_with(SPAN_TYPE_PREFIX) => {
                Self::Traced { number, parent }
            }
            (kind, Some(number)) if is_span_type(kind) => Self::Plain { number },
            ("SpanPoll", Some(number)) => Self::Poll { number },
            ("SpanLink", Some(number)) => match self::number(fields.other) {
                Some(other) => Self::Relation { number, other },
                None => Self::Other,
            },
            ("SpanFlow", number) => Self::Flow { number },
            ("SpanDetail", Some(number)) => Self::Detail { number },
            (kind, number) if kind.starts_with("Event ") => Self::Event { number },
            ("ProfilerLosses" | "IncompleteProcess", _) => Self::OfProfiler,
            _ => Self::Other,
        }
    }

    /// The number of the span that it belongs to.
    pub(super) const fn number(self) -> Option<u64> {
        match self {
            Self::Plain { number }
            | Self::Traced { number, .. }
            | Self::Poll { number }
            | Self::Relation { number, .. }
            | Self::Detail { number } => Some(number),
            Self::Flow { number } | Self::Event { number } => number,
            Self::Context { .. } | Self::OfProfiler | Self::Other => None,
        }
    }
}

/// The span of the application in which a marker was recorded.
pub(super) fn application_span(marker: &RawMarker<'_>) -> Option<SpanRef> {
    let ids = marker.data.and_then(TraceIds::of)?;
    Some(SpanRef {
        trace: TraceId(ids.trace.to_be_bytes()),
        span: SpanId(ids.span.to_be_bytes()),
    })
}

fn number(value: Option<&RawValue>) -> Option<u64> {
    value?.get().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(data: &str) -> MarkerKind {
        MarkerKind::of(&RawMarker {
            name: 0.0,
            start: 0.0,
            end: 0.0,
            phase: 0.0,
            category: 0.0,
            data: Some(data),
        })
    }

    #[test]
    fn only_the_known_types_have_numbers_of_spans() {
        let parent = Some(6);
        let traced = MarkerKind::Traced { number: 7, parent };
        assert_eq!(kind(r#"{"type":"Span ask 1","span":7,"parent":6}"#), traced);
        assert_eq!(
            kind(r#"{"type":"Span","span":7}"#),
            MarkerKind::Plain { number: 7 }
        );
        assert_eq!(kind(r#"{"type":"Text","span":7}"#), MarkerKind::Other);
        assert_eq!(
            kind(r#"{"type":"Event a 1"}"#),
            MarkerKind::Event { number: None }
        );
        assert_eq!(
            kind(r#"{"type":"Span ask 1","span":"x"}"#),
            MarkerKind::Other
        );
    }
}
