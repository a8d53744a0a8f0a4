//! Tests of bodies with a limit.

use serde_json::json;

use super::*;

const SIGNALS: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Profiles];

/// A profile with many spans, counters and stacks.
fn large() -> Value {
    let mut profile = fixture::profile();
    let threads: Vec<Value> = (0..60)
        .map(|number| {
            let mut thread = profile["threads"][number % 3].clone();
            thread["tid"] = json!(100 + number);
            thread["pid"] = json!((number / 5).to_string());
            thread
        })
        .collect();
    profile["threads"] = json!(threads);
    let counters: Vec<Value> = (0..60)
        .map(|number| {
            let mut counter = profile["counters"][number % 4].clone();
            counter["pid"] = json!((number / 5).to_string());
            counter
        })
        .collect();
    profile["counters"] = json!(counters);
    profile
}

#[test]
fn bodies_keep_to_the_limit_and_have_the_same_content() {
    let large = large();
    let limit = 4096;
    let whole = |signal| bodies(&large, signal, BodyLimit::OneRequest).concat();
    let parts = |signal| bodies(&large, signal, BodyLimit::Bytes(limit));
    for signal in SIGNALS {
        let parts = parts(signal);
        assert!(parts.len() > 3, "{signal:?}: {}", parts.len());
        let longest = parts.iter().map(Vec::len).max().unwrap();
        assert!(longest <= limit, "{signal:?}: {longest}");
    }
    let decoded = |bytes: &[u8]| ExportTraceServiceRequest::decode(bytes).unwrap();
    let spans = |request: ExportTraceServiceRequest| -> Vec<_> {
        let scopes = request
            .resource_spans
            .into_iter()
            .flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    };
    let of_parts = parts(Signal::Traces)
        .into_iter()
        .flat_map(|body| spans(decoded(&body)));
    assert_eq!(
        of_parts.collect::<Vec<_>>(),
        spans(decoded(&whole(Signal::Traces)))
    );
    for kind in ["wall/nanoseconds", "cpu/nanoseconds"] {
        let sums = |bytes: &[u8]| {
            let request = ExportProfilesServiceRequest::decode(bytes).unwrap();
            pyroscope::check(&request);
            super::profiles::sums(&request, kind)
        };
        let mut of_parts = BTreeMap::new();
        for body in parts(Signal::Profiles) {
            for (stack, value) in sums(&body) {
                *of_parts.entry(stack).or_insert(0) += value;
            }
        }
        assert_eq!(of_parts, sums(&whole(Signal::Profiles)));
    }
}

/// A profile with a chain of this many functions, and a sample on each.
fn chain(depth: u32) -> Value {
    let mut profile = fixture::profile();
    let all: Vec<u32> = (0..depth).collect();
    let callers: Vec<_> = all.iter().map(|number| number.checked_sub(1)).collect();
    let frames = json!({"length": depth, "func": vec![0; depth as usize], "address": all});
    profile["shared"]["frameTable"] = frames;
    profile["shared"]["stackTable"] = json!({"length": depth, "frame": all, "prefix": callers});
    profile["threads"][0]["samples"] = json!({
        "length": depth, "weight": null, "weightType": "samples", "stack": all,
        "timeDeltas": vec![1; depth as usize], "threadCPUDelta": vec![1; depth as usize],
    });
    profile
}

#[test]
fn the_parts_of_one_request_are_bounded_and_have_one_dictionary() {
    let chain = chain(2_000);
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("profile.json");
    std::fs::write(&from, chain.to_string()).unwrap();
    let options = ExportOptions::to(Target::OtlpProfiles).names(false);
    let labels = FleetLabels::default();
    let recording = Recording::open(&from, &options, &labels, WorkListener::default()).unwrap();
    let mut parts = Kept::default();
    let limit = BodyLimit::OneRequest;
    crate::otlp::encode(&recording, Signal::Profiles, limit, &mut parts).unwrap();
    let lengths: Vec<usize> = parts.0.iter().map(|(_, part)| part.len()).collect();
    assert!(
        lengths.len() > 2 && lengths.iter().all(|length| *length < 2 << 20),
        "{lengths:?}"
    );
    let whole: Vec<u8> = parts.0.into_iter().flat_map(|(_, part)| part).collect();
    let request = ExportProfilesServiceRequest::decode(whole.as_slice()).unwrap();
    pyroscope::check(&request);
    let stacks = request.dictionary.unwrap().stack_table;
    let deepest = stacks.iter().map(|stack| stack.location_indices.len());
    assert_eq!(deepest.max(), Some(2_000));
}

#[test]
fn the_same_profile_has_the_same_bytes() {
    for signal in SIGNALS {
        let bodies = || bodies(&large(), signal, BodyLimit::Bytes(4096));
        assert_eq!(bodies(), bodies(), "{signal:?}");
    }
}

#[test]
fn bodies_appended_to_each_other_are_one_request() {
    let mut appended = Vec::new();
    for body in bodies(&large(), Signal::Metrics, BodyLimit::Bytes(4096)) {
        appended.extend(body);
    }
    let appended = ExportMetricsServiceRequest::decode(appended.as_slice()).unwrap();
    let points = |request: &ExportMetricsServiceRequest| {
        let scopes = request
            .resource_metrics
            .iter()
            .flat_map(|resource| &resource.scope_metrics);
        scopes.flat_map(|scope| &scope.metrics).count()
    };
    assert_eq!(points(&appended), points(&metrics(&large())));
}

#[test]
fn each_body_says_what_it_is() {
    let kinds = [
        (Encoding::OtlpTraces, BodyKind::OtlpTraces),
        (Encoding::OtlpMetrics, BodyKind::OtlpMetrics),
        (Encoding::OtlpProfiles, BodyKind::OtlpProfiles),
    ];
    for (encoding, kind) in kinds {
        let Kept(all) = encoded(&fixture::profile(), encoding, 1 << 20);
        assert!(!all.is_empty() && all.iter().all(|(of_body, _)| *of_body == kind));
    }
}

#[test]
fn a_profile_without_anything_is_a_request_without_items() {
    let empty = json!({"meta": {}, "threads": []});
    for signal in SIGNALS {
        assert!(
            bodies(&empty, signal, BodyLimit::Bytes(4096)).is_empty(),
            "{signal:?}"
        );
    }
    let request = profiles(&empty);
    assert!(request.resource_profiles.is_empty() && request.dictionary.is_some());
}
