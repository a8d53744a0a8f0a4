//! The application's traces of samples and markers.
//!
//! A marker has its trace in two fields of its payload. The samples of a thread have theirs in
//! markers of the profiler: intervals, each of which covers samples with the same trace and group.

use profiler_json::span_types::{CONTEXT_TYPE, SPAN_ID_KEY, TRACE_ID_KEY};
use serde_json::{Map, Value};

use super::sample_time::bounded_ns;
use super::thread::RawThread;

/// The identifiers of a trace and of a span in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceIds {
    /// The trace.
    pub trace: u128,
    /// The span.
    pub span: u64,
}

impl TraceIds {
    /// The trace in the payload of a marker.
    pub fn of(data: &str) -> Option<Self> {
        Self::of_fields(&fields(data, TRACE_ID_KEY)?)
    }

    fn of_fields(fields: &Map<String, Value>) -> Option<Self> {
        let digits = |key| fields.get(key).and_then(Value::as_str);
        let trace = u128::from_str_radix(digits(TRACE_ID_KEY)?, 16).ok()?;
        let span = u64::from_str_radix(digits(SPAN_ID_KEY)?, 16).ok()?;
        (trace != 0 && span != 0).then_some(Self { trace, span })
    }
}

/// The fields of a payload that contains this text. Most payloads do not, so they are not parsed.
fn fields(data: &str, text: &str) -> Option<Map<String, Value>> {
    let has_it = data.contains(text);
    has_it.then(|| serde_json::from_str(data).ok()).flatten()
}

/// Whether a marker is an interval of samples with the same trace and group.
pub fn is_sample_context(data: &str) -> bool {
    let fields = fields(data, CONTEXT_TYPE);
    fields.is_some_and(|fields| fields.get("type").is_some_and(|of| of == CONTEXT_TYPE))
}

/// The traces of the samples of a thread.
#[derive(Debug)]
pub struct SampleTraces {
    /// Start, end and trace, in the order of time.
    intervals: Vec<(i64, i64, TraceIds)>,
}

impl SampleTraces {
    /// The traces of a thread whose markers were read.
    pub fn of(thread: &RawThread) -> Self {
        let interval = |marker: super::RawMarker<'_>| {
            let data = marker.data.filter(|data| is_sample_context(data))?;
            let (start, end) = (bounded_ns(marker.start), bounded_ns(marker.end));
            Some((start, end, TraceIds::of(data)?))
        };
        let mut intervals: Vec<_> = thread.markers.iter().filter_map(interval).collect();
        intervals.sort_unstable_by_key(|(start, ..)| *start);
        Self { intervals }
    }

    /// The trace of the sample that was taken at `at_ms`.
    pub fn at(&self, at_ms: f64) -> Option<TraceIds> {
        let at = bounded_ns(at_ms);
        let begun = self.intervals.partition_point(|(start, ..)| *start <= at);
        let (_, end, ids) = self.intervals.get(begun.checked_sub(1)?)?;
        (at <= *end).then_some(*ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"type":"SampleContext","traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7"}"#;

    #[test]
    fn only_payloads_with_both_identifiers_have_a_trace() {
        let ids = TraceIds::of(DATA).unwrap();
        assert_eq!(ids.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(ids.span, 0x00f0_67aa_0ba9_02b7);
        for data in [
            "{}",
            r#"{"traceId":7,"spanId":8}"#,
            r#"{"traceId":"x"}"#,
            "traceId",
        ] {
            assert_eq!(TraceIds::of(data), None);
        }
        assert!(is_sample_context(DATA));
        assert!(!is_sample_context(
            r#"{"type":"Text","name":"SampleContext"}"#
        ));
    }

    #[test]
    fn a_sample_has_the_trace_of_the_interval_that_contains_it() {
        let trace = |span| TraceIds { trace: 1, span };
        let intervals = vec![(10, 20, trace(1)), (30, 30, trace(2))];
        let traces = SampleTraces { intervals };
        let at = |ns: f64| traces.at(ns / 1e6).map(|ids| ids.span);
        assert_eq!(
            [9.0, 10.0, 20.0, 21.0].map(at),
            [None, Some(1), Some(1), None]
        );
        assert_eq!([30.0, 31.0].map(at), [Some(2), None]);
    }
}
