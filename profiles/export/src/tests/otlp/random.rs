//! Any profile becomes messages that decode, with valid indices.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A number that is sometimes one that no profile should have.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => (0..8_u32).prop_map(|number| json!(number)),
        1 => Just(Value::Null),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => any::<i64>().prop_map(|number| json!(number)),
    ]
}

fn column(length: usize) -> impl Strategy<Value = Value> {
    prop::collection::vec(number(), length).prop_map(Value::from)
}

fn payload() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "Span",
        "Span a 1",
        "Span b 2",
        "SpanPoll",
        "SpanLink",
        "SpanFlow",
        "SpanDetail",
        "Event e 1",
        "Text",
        "ProfilerLosses",
    ]);
    (kind, number(), number(), number(), number()).prop_map(|(kind, span, parent, other, value)| {
        json!({"type": kind, "span": span, "parent": parent, "other": other, "flow": other, "group": other,
               "value": value, "list": [value, {"a": value}]})
    })
}

fn thread() -> impl Strategy<Value = Value> {
    let markers = prop::collection::vec((number(), number(), number(), 0..4_u8, payload()), 0..20);
    let samples = (column(6), column(6), column(6));
    (samples, markers, 0..3_u8).prop_map(|((stacks, times, cpu), rows, pid)| {
        let column = |of: fn(&(Value, Value, Value, u8, Value)) -> Value| rows.iter().map(of).collect::<Vec<_>>();
        json!({
            "name": "t", "pid": pid.to_string(), "tid": 7, "processName": "p",
            "samples": {"length": 6, "stack": stacks, "timeDeltas": times, "threadCPUDelta": cpu,
                        "weightType": "samples"},
            "markers": {"length": rows.len(), "name": column(|row| row.0.clone()),
                        "startTime": column(|row| row.1.clone()), "endTime": column(|row| row.2.clone()),
                        "phase": column(|row| json!(row.3)), "category": column(|_| json!(0)),
                        "data": column(|row| row.4.clone())},
        })
    })
}

fn profile() -> impl Strategy<Value = Value> {
    let tables = (
        column(8),
        column(8),
        column(8),
        column(8),
        column(8),
        column(8),
        column(8),
    );
    (prop::collection::vec(thread(), 0..5), tables, column(5), column(5)).prop_map(
        |(threads, (frame, prefix, func, address, depth, name, line), times, counts)| {
            json!({
                "meta": {"preprocessedProfileVersion": 66, "interval": 1, "startTime": 1.7e12,
                         "sampleUnits": {"threadCPUDelta": "ns"}, "markerSchema": [
                    {"name": "SpanFlow", "fields": [{"key": "flow", "format": "flow-id"}]},
                    {"name": "Span", "fields": [{"key": "group", "format": "unique-string"}]}]},
                "libs": [{"name": "a", "codeId": "0a"}, {"name": "a", "codeId": "0b"}], "threads": threads,
                "counters": [{"name": "g", "category": "Group", "pid": "1",
                              "samples": {"timeDeltas": times, "count": counts, "number": counts}}],
                "shared": {
                    "stackTable": {"frame": frame, "prefix": prefix},
                    "frameTable": {"func": func, "address": address, "inlineDepth": depth, "line": line},
                    "funcTable": {"name": name, "resource": [0, 1, null, 0]},
                    "resourceTable": {"name": [0, 1]}, "sources": {},
                    "stringArray": ["a", "b", "c", "sent", "received", "follows from", "a", ""],
                },
            })
        },
    )
}

/// Spans whose ancestors are followed to their end, which exists.
fn check_spans(request: &ExportTraceServiceRequest) {
    let scopes = request
        .resource_spans
        .iter()
        .flat_map(|resource| &resource.scope_spans);
    let spans: Vec<_> = scopes.flat_map(|scope| &scope.spans).collect();
    for span in &spans {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        attributes(&span.attributes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_profile_becomes_messages_that_decode(profile in profile()) {
        check_spans(&traces(&profile));
        metrics(&profile);
        for body in bodies(&profile, Signal::Profiles, BodyLimit::Bytes(600)) {
            check_indices(&ExportProfilesServiceRequest::decode(body.as_slice()).unwrap());
        }
        let whole = profiles(&profile);
        check_indices(&whole);
        for kind in ["wall/nanoseconds", "cpu/nanoseconds"] {
            prop_assert!(super::profiles::sums(&whole, kind).values().all(|value| *value > 0));
        }
    }
}

/// Pyroscope's rules, which a request without samples cannot fulfil.
fn check_indices(request: &ExportProfilesServiceRequest) {
    if !request.resource_profiles.is_empty() {
        pyroscope::check(request);
    }
}
