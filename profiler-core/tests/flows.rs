//! Tests of flows: their texts, their headers, serde, and the markers that `flow!` records.

use std::collections::HashSet;
use std::num::NonZeroU64;

use profiler_core::flow::{Flow, TraceparentError};
use proptest::prelude::*;

fn any_flow() -> impl Strategy<Value = Flow> {
    (1..=u64::MAX).prop_map(|number| Flow::from(NonZeroU64::new(number).unwrap()))
}

/// A header with these parts.
fn header(version: &str, trace_id: &str, parent_id: &str, rest: &str) -> String {
    format!("{version}-{trace_id}-{parent_id}-{rest}")
}

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT_ID: &str = "00f067aa0ba902b7";

proptest! {
    #[test]
    fn a_flow_is_the_same_after_its_text_its_json_and_its_header(
        flow in any_flow(), trace_id: u128
    ) {
        prop_assert_eq!(flow.to_string().parse(), Ok(flow));
        prop_assert_eq!(flow.to_string().to_uppercase().parse(), Ok(flow));
        let json = serde_json::to_string(&flow).unwrap();
        prop_assert_eq!(&json, &format!("\"{flow}\""));
        prop_assert_eq!(serde_json::from_str::<Flow>(&json).unwrap(), flow);
        prop_assert_eq!(Flow::from_traceparent(&flow.to_traceparent()), Ok(flow));
        let header = flow.to_traceparent_of(trace_id);
        prop_assert_eq!(Flow::from_traceparent(&header), Ok(flow));
        let has_trace_id = trace_id == 0 || header.contains(&format!("-{trace_id:032x}-"));
        prop_assert!(has_trace_id);
    }

    #[test]
    fn only_16_digits_that_are_not_all_zero_are_the_text_of_a_flow(text in "[0-9a-fA-F]{0,18}|.{0,20}") {
        let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_flow = digits && text.bytes().any(|byte| byte != b'0');
        prop_assert_eq!(text.parse::<Flow>().is_ok(), is_flow);
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Flow>(&json).is_ok(), is_flow);
    }

    #[test]
    fn a_changed_character_of_a_header_gives_another_flow_or_none(
        flow in any_flow(), place in 0_usize..55, character: char
    ) {
        let header = flow.to_traceparent();
        let mut changed: Vec<char> = header.chars().collect();
        prop_assume!(changed[place] != character);
        changed[place] = character;
        let changed: String = changed.into_iter().collect();
        let is_digit = matches!(character, '0'..='9' | 'a'..='f');
        let read = Flow::from_traceparent(&changed);
        match place {
            _ if !is_digit => prop_assert_eq!(read, Err(TraceparentError::Malformed)),
            // Another version, another trace id, other flags.
            0 | 1 | 3..=34 | 53 | 54 => prop_assert_eq!(read, Ok(flow)),
            36..=51 => prop_assert_ne!(read, Ok(flow)),
            _ => prop_assert_eq!(read, Err(TraceparentError::Malformed)),
        }
    }

    #[test]
    fn any_text_is_read_as_a_header_without_a_panic(
        text in ".{0,70}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.{0,3}"
    ) {
        if let Ok(flow) = Flow::from_traceparent(&text) {
            let parent_id = text.get(36..52).map(str::to_owned);
            prop_assert_eq!(parent_id, Some(flow.to_string()));
        }
    }
}

#[test]
fn headers_are_read_as_the_specification_says() {
    use TraceparentError::{ForbiddenVersion, Malformed, NoParentId, NoTraceId};
    let flow = PARENT_ID.parse::<Flow>().unwrap();
    let [zero_trace, zero_parent] = [32, 16].map(|count| "0".repeat(count));
    let trace_upper = TRACE_ID.to_uppercase();
    let parent_upper = PARENT_ID.to_uppercase();
    let of = |parts: [&str; 4]| {
        let [version, trace_id, parent_id, rest] = parts;
        Flow::from_traceparent(&header(version, trace_id, parent_id, rest))
    };
    let cases = [
        (["00", TRACE_ID, PARENT_ID, "01"], Ok(flow)),
        (["00", TRACE_ID, PARENT_ID, "00"], Ok(flow)),
        (["00", TRACE_ID, PARENT_ID, "ff"], Ok(flow)),
        (["00", TRACE_ID, PARENT_ID, "01-"], Err(Malformed)),
        (["00", TRACE_ID, PARENT_ID, "01-more"], Err(Malformed)),
        (["00", TRACE_ID, PARENT_ID, "1"], Err(Malformed)),
        (["00", TRACE_ID, PARENT_ID, "0G"], Err(Malformed)),
        (["00", &trace_upper, PARENT_ID, "01"], Err(Malformed)),
        (["00", TRACE_ID, &parent_upper, "01"], Err(Malformed)),
        (["00", &zero_trace, PARENT_ID, "01"], Err(NoTraceId)),
        (["00", TRACE_ID, &zero_parent, "01"], Err(NoParentId)),
        (["00", &TRACE_ID[1..], PARENT_ID, "01"], Err(Malformed)),
        (["00", TRACE_ID, &PARENT_ID[1..], "01"], Err(Malformed)),
        (["0", TRACE_ID, PARENT_ID, "01"], Err(Malformed)),
        (["0A", TRACE_ID, PARENT_ID, "01"], Err(Malformed)),
        (["ff", TRACE_ID, PARENT_ID, "01"], Err(ForbiddenVersion)),
        (["cc", TRACE_ID, PARENT_ID, "01"], Ok(flow)),
        (["01", TRACE_ID, PARENT_ID, "01-what-comes-later"], Ok(flow)),
        (["01", TRACE_ID, PARENT_ID, "01."], Err(Malformed)),
        (["01", TRACE_ID, PARENT_ID, "0"], Err(Malformed)),
        (["fe", &zero_trace, PARENT_ID, "01"], Err(NoTraceId)),
    ];
    for (parts, expected) in cases {
        assert_eq!(of(parts), expected, "{parts:?}");
    }
}

#[test]
fn a_header_is_of_version_00_sampled_and_has_a_trace_id_of_its_own_flow() {
    let flow = PARENT_ID.parse::<Flow>().unwrap();
    let header = flow.to_traceparent();
    let parts: Vec<&str> = header.split('-').collect();
    assert_eq!((parts[0], parts[2], parts[3]), ("00", PARENT_ID, "01"));
    assert!(parts[1].ends_with(PARENT_ID), "{header}");
    assert_eq!(flow.to_traceparent(), header, "another header");
    assert_eq!(flow.to_traceparent_of(0), header);
    let trace_id = u128::from_str_radix(TRACE_ID, 16).unwrap();
    let expected = format!("00-{TRACE_ID}-{PARENT_ID}-01");
    assert_eq!(flow.to_traceparent_of(trace_id), expected);
}

#[test]
fn no_two_calls_give_the_same_flow() {
    let many = || (0..5000).map(|_| Flow::new()).collect::<Vec<_>>();
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::Builder::new().spawn(many).unwrap())
        .collect();
    let flows = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap());
    assert_eq!(flows.collect::<HashSet<Flow>>().len(), 4 * 5000);
}

#[test]
fn json_numbers_and_zero_are_no_flows() {
    for json in ["17", "\"0000000000000000\"", "null", "[1]"] {
        assert!(serde_json::from_str::<Flow>(json).is_err(), "{json}");
    }
}

#[cfg(feature = "enabled")]
mod recorded {
    use profiler_core::internal::codec;
    use profiler_core::internal::entry::{Entry, Timing};
    use profiler_core::internal::payload::{FieldValue, PayloadReader};
    use profiler_core::marker::schema::{FieldFormat, Format};
    use profiler_core::marker::{MarkerOptions, category};
    use profiler_core::time::Timestamp;
    use profiler_core::{flow, marker};
    use test_support::own_process;

    use super::*;
    use crate::support::{self, RunningSession, for_each_entry};

    #[test]
    fn formats_for_programs_have_the_number() {
        let flow = Flow::new();
        let number = flow.number();
        let bytes = codec::encode(&flow).unwrap();
        assert_eq!(bytes, codec::encode(&number.get()).unwrap());
        assert_eq!(codec::decode::<Flow>(&bytes).unwrap(), flow);
        let zero = codec::encode(&0_u64).unwrap();
        assert!(codec::decode::<Flow>(&zero).is_err(), "zero is no flow");
    }

    /// A recorded marker: name, type, format of the field `flow`, its number, further keys.
    type Seen = (String, String, FieldFormat, u64, Vec<String>);

    fn seen() -> Vec<Seen> {
        let reader = support::pool();
        let snapshot = reader.snapshot().unwrap();
        let mut all = Vec::new();
        for_each_entry(&reader, &snapshot, |entry| {
            let Entry::Marker(marker) = entry else { return };
            let site = snapshot.definitions.site(marker.site).unwrap();
            let of = snapshot.definitions.marker_type(site.marker_type).unwrap();
            let Some(Ok(FieldValue::U64(number))) = PayloadReader::new(marker.payload).next()
            else {
                panic!("no flow in {of:?}")
            };
            let format = of.schema.field_named("flow").unwrap().format.clone();
            assert_eq!(of.keys[0], "flow");
            let keys = of.keys[1..].to_vec();
            all.push((
                site.name.clone(),
                of.schema.name.clone(),
                format,
                number,
                keys,
            ));
        });
        all
    }

    #[test]
    fn only_the_end_of_a_flow_has_the_format_that_ends_it() {
        own_process!();
        let _session = RunningSession::with_limit(1 << 20);
        let request = Flow::new();
        let number = request.number().get();
        flow!(begin request);
        flow!(step request, "passed", category = &category::IPC);
        flow!(end request, "answered",);
        flow!(begin request, "sent", url = "index.html", bytes = 17);
        flow!(end Flow::from(request.number()), "got", category = &category::IPC, ok = true);
        marker!("by hand", flow = request);
        let [goes, ends] = [Format::FlowId, Format::TerminatingFlowId].map(FieldFormat::Value);
        let row = |name: &str, of: &str, format: &FieldFormat, keys: &[&str]| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            let [name, of] = [name, of].map(str::to_owned);
            (name, of, format.clone(), number, keys)
        };
        let sent = "sent (flow: flow-id, url: string, bytes: integer)";
        let got = "got (flow: terminating-flow-id, ok: string)";
        let expected = [
            row("flow", "FlowBegin", &goes, &[]),
            row("passed", "FlowStep", &goes, &[]),
            row("answered", "FlowEnd", &ends, &[]),
            row("sent", sent, &goes, &["url", "bytes"]),
            row("got", got, &ends, &["ok"]),
            row("by hand", "by hand (flow: flow-id)", &goes, &[]),
        ];
        assert_eq!(seen(), expected);
    }

    #[test]
    fn a_marker_of_a_flow_takes_options() {
        own_process!();
        let _session = RunningSession::with_limit(1 << 20);
        let options = MarkerOptions::interval_until_now_from(Timestamp::now());
        let request = Flow::new();
        flow!(begin request, "sent", options = options);
        flow!(end request, "got", options = options, bytes = 17);
        let reader = support::pool();
        let mut intervals = 0;
        for_each_entry(&reader, &reader.snapshot().unwrap(), |entry| {
            let Entry::Marker(marker) = entry else { return };
            intervals += u32::from(matches!(marker.timing, Timing::Interval(..)));
        });
        assert_eq!(intervals, 2);
    }

    #[test]
    fn without_a_session_no_flow_is_evaluated() {
        own_process!();
        let never = || -> Flow { panic!("a flow was evaluated") };
        flow!(begin never());
        flow!(step never(), "passed", category = &category::IPC);
        flow!(end never(), "answered", bytes = 17);
    }
}
