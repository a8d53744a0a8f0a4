//! Tests of traces.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::trace::v1::Span;

use serde_json::json;

use super::*;

/// A request as text; times in microseconds since the session's start.
pub(super) fn text(request: &ExportTraceServiceRequest) -> String {
    let us = |ns: u64| (ns - 1_700_000_000_000_000_000) as f64 / 1000.0;
    let mut text = String::new();
    for of_resource in &request.resource_spans {
        writeln!(text, "{}", resource(&of_resource.resource)).unwrap();
        for scope in &of_resource.scope_spans {
            writeln!(text, " {}", scope.scope.as_ref().unwrap().name).unwrap();
            for span in &scope.spans {
                let ids = [&span.trace_id, &span.span_id, &span.parent_span_id].map(|id| hex(id));
                writeln!(
                    text,
                    "  {} {}..{} {} kind {} flags {:#x} dropped {} {} {}",
                    span.name,
                    us(span.start_time_unix_nano),
                    us(span.end_time_unix_nano),
                    ids.join("/"),
                    span.kind,
                    span.flags,
                    span.dropped_attributes_count,
                    span.dropped_events_count,
                    span.dropped_links_count,
                )
                .unwrap();
                writeln!(text, "    {}", line(&span.attributes)).unwrap();
                for event in &span.events {
                    let at = us(event.time_unix_nano);
                    writeln!(text, "    {} {at} {}", event.name, line(&event.attributes)).unwrap();
                }
                for link in &span.links {
                    writeln!(
                        text,
                        "    link {}/{}",
                        hex(&link.trace_id),
                        hex(&link.span_id)
                    )
                    .unwrap();
                }
            }
        }
    }
    text
}

pub(super) fn spans(request: &ExportTraceServiceRequest) -> BTreeMap<String, Span> {
    let scopes = request
        .resource_spans
        .iter()
        .flat_map(|resource| &resource.scope_spans);
    let spans = scopes.flat_map(|scope| &scope.spans);
    spans
        .map(|span| (span.name.clone(), span.clone()))
        .collect()
}

#[test]
fn a_whole_request_of_traces() {
    insta::assert_snapshot!(text(&traces(&fixture::profile())));
}

#[test]
fn spans_that_a_flow_connects_are_one_trace_over_processes() {
    let all = spans(&traces(&fixture::profile()));
    let trace = &all["handle"].trace_id;
    for (name, parent) in [
        ("ask", "handle"),
        ("answer", "ask"),
        ("draw", "answer"),
        ("later", "handle"),
    ] {
        assert_eq!(&all[name].trace_id, trace, "{name}");
        assert_eq!(all[name].parent_span_id, all[parent].span_id, "{name}");
    }
    assert_eq!(
        (all["ask"].kind, all["answer"].kind, all["draw"].kind),
        (3, 2, 1)
    );
    assert_eq!(
        all["answer"].flags & 0x300,
        0x300,
        "its parent is in another process"
    );
    let [link] = all["later"].links.as_slice() else {
        panic!("{:?}", all["later"].links)
    };
    assert_eq!(link.span_id, all["ask"].span_id, "it follows from that");
}

#[test]
fn an_interval_lies_within_the_innermost_interval_that_contains_it() {
    let all = spans(&traces(&fixture::profile()));
    assert_eq!(all["phase"].parent_span_id, all["batch"].span_id);
    assert_eq!(all["phase"].trace_id, all["batch"].trace_id);
    assert!(
        all["batch"].parent_span_id.is_empty(),
        "a span of `tracing` may not be entered"
    );
    let names = |name: &str| -> Vec<String> {
        all[name]
            .events
            .iter()
            .map(|event| event.name.clone())
            .collect()
    };
    assert_eq!(
        names("phase"),
        ["tick"],
        "the other one is outside of all intervals"
    );
    assert_eq!(names("handle"), ["server::front"], "from another thread");
}

#[test]
fn spans_with_one_end_are_sent_with_what_is_known() {
    let all = spans(&traces(&fixture::profile()));
    let state = |name: &str| attributes(&all[name].attributes).remove("profiler.span.state");
    let times = |name: &str| all[name].end_time_unix_nano - all[name].start_time_unix_nano;
    assert_eq!(
        (state("later"), times("later")),
        (Some("open".into()), 22_000_000)
    );
    assert_eq!(
        (state("lost"), times("lost")),
        (Some("start unknown".into()), 0)
    );
    assert_eq!(state("ask"), None);
}

#[test]
fn identifiers_are_those_of_an_earlier_batch() {
    let mut earlier = fixture::profile();
    // The other process and the first thread are not in it.
    earlier["threads"]
        .as_array_mut()
        .unwrap()
        .retain(|thread| thread["name"] == "io");
    let earlier = spans(&traces(&earlier));
    let whole = spans(&traces(&fixture::profile()));
    assert_eq!(earlier["later"].span_id, whole["later"].span_id);
    assert_eq!(
        earlier["later"].trace_id, whole["later"].trace_id,
        "that of the missing parent"
    );
}

#[test]
fn flows_in_a_circle_make_no_circle_of_parents() {
    let mut profile = fixture::profile();
    // The worker's answer is a flow back to `ask`.
    let ends = [(0_usize, "sent", 8, "received"), (2, "received", 3, "sent")];
    for (thread, _, span, back) in ends {
        let markers = &mut profile["threads"][thread]["markers"];
        let texts = ["sent", "received"].map(|name| if name == "sent" { 6 } else { 7 });
        let name = if back == "sent" { texts[0] } else { texts[1] };
        let columns = [
            ("name", json!(name)),
            ("startTime", json!(5.5)),
            ("endTime", Value::Null),
            ("phase", json!(0)),
            ("category", json!(0)),
            (
                "data",
                json!({"type": "SpanFlow", "span": span, "flow": 14}),
            ),
        ];
        for (column, value) in columns {
            markers[column].as_array_mut().unwrap().push(value);
        }
    }
    let all = spans(&traces(&profile));
    assert_eq!(all["answer"].parent_span_id, all["ask"].span_id);
    assert_eq!(all["ask"].parent_span_id, all["handle"].span_id);
    assert_eq!(all["ask"].links.len(), 1, "the way back is a link");
}

#[test]
fn a_span_with_too_many_events_says_how_many_are_missing() {
    let mut profile = fixture::profile();
    let markers = &mut profile["threads"][0]["markers"];
    for _ in 0..300 {
        let data = json!({"type": "Event e 1", "span": 8, "message": "again"});
        let columns = [
            ("name", json!(8)),
            ("startTime", json!(5)),
            ("endTime", Value::Null),
            ("phase", json!(0)),
            ("category", json!(0)),
            ("data", data),
        ];
        for (column, value) in columns {
            markers[column].as_array_mut().unwrap().push(value);
        }
    }
    let ask = spans(&traces(&profile)).remove("ask").unwrap();
    assert_eq!(
        (ask.events.len(), ask.dropped_events_count),
        (128, 301 - 128)
    );
}
