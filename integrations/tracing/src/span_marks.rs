//! The markers about spans that are not starts, ends or values: polls and links.
//!
//! Used by `recording`. A link is two markers with one flow identifier, one on the thread of each
//! span, because viewers draw a flow between the markers that have its identifier. The starts of
//! spans have none: an identifier per span would make profiles larger for spans that nothing links.

use profiler_core::internal::span_number::{flow_of, options_of_span};
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use profiler_core::marker::{MarkerTiming, ProfilerMarker, add_marker};
use serde::Serialize;

use crate::call_site::site_of_span;
use crate::span_id::RecordedSpan;

/// The time between entering and leaving a span, such as one poll of a future.
#[derive(Debug, Serialize)]
pub(crate) struct SpanPoll {
    /// The number of the span.
    pub(crate) span: u64,
}

impl ProfilerMarker for SpanPoll {
    const TYPE_NAME: &'static str = "SpanPoll";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name} (poll)")
            .field(MarkerField::new("span", Format::Integer).label("Span"))
    }
}

/// One side of a link between two spans.
#[derive(Debug, Serialize)]
struct SpanLink {
    /// The number of the span of this side.
    span: u64,
    /// The number of the other span.
    other: u64,
    /// The flow identifier of both sides.
    flow: u64,
}

impl ProfilerMarker for SpanLink {
    const TYPE_NAME: &'static str = "SpanLink";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name}")
            .field(MarkerField::new("span", Format::Integer).label("Span"))
            .field(MarkerField::new("other", Format::Integer).label("Other span"))
            .key_label_format("flow", "Flow", Format::FlowId)
    }
}

/// How one span relates to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The first is the parent that the second names.
    Parent,
    /// The second follows from the first.
    Follows,
}

impl Relation {
    /// The names of the markers on the side of the first span and of the second.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Parent => ["parent of", "child of"],
            Self::Follows => ["followed by", "follows from"],
        }
    }
}

/// Records that two spans are related.
#[cold]
pub(crate) fn link(relation: Relation, first: RecordedSpan, second: RecordedSpan) {
    let flow = flow_of(second.number());
    let [of_first, of_second] = relation.names();
    for (name, span, other) in [(of_first, first, second), (of_second, second, first)] {
        let Some(site) = site_of_span(span) else {
            continue;
        };
        let link = SpanLink {
            span: span.number(),
            other: other.number(),
            flow,
        };
        let options = options_of_span(span.number(), MarkerTiming::InstantNow);
        add_marker(name, site.markers.category(), options, &link);
    }
}
