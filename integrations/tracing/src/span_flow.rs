//! Flows between spans of different processes: the arrow from a request to its answer elsewhere.
//!
//! Called by applications. The sender begins a flow, and sends it along as a text, for example in a
//! header; the receiver ends it. Both ends are markers with the identifier of a [`Flow`] of the
//! core, and with the span.

use std::fmt;
use std::str::FromStr;

use profiler_core::flow::Flow;
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use profiler_core::marker::{CategoryPair, MarkerOptions, ProfilerMarker, add_marker, category};
use profiler_core::session;
use serde::Serialize;

use crate::call_site::site_of_span;
use crate::recording::entered_span;

/// A flow from a span of one process to a span of another one.
///
/// ```
/// use profiler_tracing::SpanFlow;
///
/// // In the process that sends a request, inside of its span:
/// let header = SpanFlow::begin().map(|flow| flow.to_string());
/// // In the process that has received it, inside of its own span:
/// if let Some(flow) = header.and_then(|text| text.parse::<SpanFlow>().ok()) {
///     flow.end();
/// }
/// ```
///
/// Each end costs as much as a marker with a payload. Viewers show the ends as connected markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanFlow(Flow);

impl SpanFlow {
    /// Begins a flow at the span that the calling thread is inside. `None` while no session runs.
    /// While the session is paused, the flow has no beginning in the profile.
    pub fn begin() -> Option<Self> {
        if !(cfg!(feature = "enabled") && session::is_active()) {
            return None;
        }
        let flow = Self(Flow::new());
        flow.record("sent");
        Some(flow)
    }

    /// Ends a flow at the span that the calling thread is inside. A flow may end more than once.
    /// Does nothing while no session runs.
    pub fn end(self) {
        if cfg!(feature = "enabled") && session::is_active() {
            self.record("received");
        }
    }

    fn record(self, name: &str) {
        let span = entered_span();
        let site = span.and_then(site_of_span);
        let other = || CategoryPair::from(&category::OTHER);
        let category = site.map_or_else(other, |site| site.markers.category());
        let end = SpanFlowEnd {
            span: span.map(|span| span.number()),
            flow: self.0.number().get(),
        };
        add_marker(name, category, MarkerOptions::default(), &end);
    }
}

impl fmt::Display for SpanFlow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for SpanFlow {
    type Err = ParseSpanFlowError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self).map_err(|_| ParseSpanFlowError)
    }
}

/// A text is not that of a [`SpanFlow`]: 16 hexadecimal digits that are not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a flow: 16 hexadecimal digits that are not all zero")]
pub struct ParseSpanFlowError;

/// One end of a flow.
#[derive(Debug, Serialize)]
struct SpanFlowEnd {
    /// The number of the span in which the flow begins or ends.
    span: Option<u64>,
    /// The flow identifier.
    flow: u64,
}

impl ProfilerMarker for SpanFlowEnd {
    const TYPE_NAME: &'static str = "SpanFlow";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name}")
            .field(MarkerField::new("span", Format::Integer).label("Span"))
            .key_label_format("flow", "Flow", Format::FlowId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_the_same_after_its_text() {
        let flow: SpanFlow = "00ab000000000012".parse().expect("a flow");
        assert_eq!(flow.to_string(), "00ab000000000012");
        assert_eq!(flow.to_string().parse(), Ok(flow));
    }

    #[test]
    fn other_texts_are_no_flows() {
        let texts = [
            "",
            "12",
            "0000000000000000",
            "+0ab000000000012",
            "00ab00000000001g",
            "00ab0000000000123",
        ];
        for text in texts {
            assert_eq!(text.parse::<SpanFlow>(), Err(ParseSpanFlowError), "{text}");
        }
    }

    #[test]
    fn without_a_session_there_is_no_flow() {
        assert_eq!(SpanFlow::begin(), None);
    }
}
