//! The request for a body: its address and its headers.
//!
//! Used by the sender. Pure. Every request has a number that is the same at each attempt
//! (`Idempotency-Key`), so a proxy or an engine can recognise a body that it already has.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::batch::BodyId;
use super::destination::{Authorization, PushDestination, PushEngine, Secret};
use super::http_client::PushRequest;
use profiler_export::bodies::{BodyKind, PprofSeries};
use profiler_fleet::RequestSecrets;

const PROTOBUF: &str = "application/x-protobuf";
const BYTES: &str = "application/octet-stream";
const JSON: &str = "application/json";
const ROWS: &str = "application/x-ndjson";

/// The request for a body of this kind.
pub(super) fn request_for(
    destination: &PushDestination,
    kind: &BodyKind,
    id: &BodyId<'_>,
) -> PushRequest {
    let PushDestination {
        base, path, engine, ..
    } = destination;
    let (url, content_type) = match kind {
        BodyKind::OtlpTraces => (format!("{base}{path}/v1/traces"), PROTOBUF),
        BodyKind::OtlpMetrics => (format!("{base}{path}/v1/metrics"), PROTOBUF),
        BodyKind::OtlpProfiles => (format!("{base}{path}/v1development/profiles"), PROTOBUF),
        BodyKind::Pprof(_) if *engine == PushEngine::Parca => {
            (format!("{base}{path}/profiles/writeraw"), JSON)
        }
        BodyKind::Pprof(series) => (format!("{base}{path}/ingest?{}", query_of(series)), BYTES),
        BodyKind::ClickHouseRows { table } => {
            let database = path.trim_start_matches('/');
            let insert = escaped(&table.insert_statement());
            // The answer of a cluster means that the rows are on their server.
            let settings = format!("database={database}&insert_distributed_sync=1");
            (format!("{base}/?{settings}&query={insert}"), ROWS)
        }
    };
    let mut headers = vec![("idempotency-key", id.to_string())];
    headers.extend(authorization(destination, kind));
    PushRequest {
        url,
        content_type,
        headers,
        secrets: secrets_of(destination),
    }
}

/// The body as its endpoint wants it. Parca takes the JSON form of its `WriteRawRequest`.
pub(super) fn body_for<'b>(
    destination: &PushDestination,
    kind: &BodyKind,
    bytes: &'b [u8],
) -> Cow<'b, [u8]> {
    match kind {
        BodyKind::Pprof(series) if destination.engine == PushEngine::Parca => {
            let mut labels = vec![
                json!({"name": "__name__", "value": "process_cpu"}),
                json!({"name": "service", "value": series.service}),
            ];
            let further = series.labels.iter();
            labels.extend(further.map(|(name, value)| json!({"name": name, "value": value})));
            let request = json!({"series": [{
                "labels": {"labels": labels},
                "samples": [{"rawProfile": BASE64.encode(bytes)}],
            }]});
            Cow::Owned(request.to_string().into_bytes())
        }
        _ => Cow::Borrowed(bytes),
    }
}

/// The headers with which a request is authorised.
fn authorization(destination: &PushDestination, kind: &BodyKind) -> Vec<(&'static str, String)> {
    match (&destination.authorization, kind) {
        (Authorization::None, _) => Vec::new(),
        (Authorization::Bearer(token), _) => {
            vec![("authorization", format!("Bearer {}", token.reveal()))]
        }
        (Authorization::User { name, password }, BodyKind::ClickHouseRows { .. }) => vec![
            ("x-clickhouse-user", name.clone()),
            ("x-clickhouse-key", password.reveal().to_owned()),
        ],
        (Authorization::User { name, password }, _) => {
            vec![("authorization", format!("Basic {}", pair(name, password)))]
        }
    }
}

/// A user and a password as a header has them.
fn pair(name: &str, password: &Secret) -> String {
    BASE64.encode(format!("{name}:{}", password.reveal()))
}

/// The secrets in the headers of a request.
fn secrets_of(destination: &PushDestination) -> RequestSecrets {
    match &destination.authorization {
        Authorization::None => RequestSecrets::default(),
        Authorization::Bearer(token) => RequestSecrets::new([token.reveal().to_owned()]),
        Authorization::User { name, password } => {
            RequestSecrets::new([pair(name, password), password.reveal().to_owned()])
        }
    }
}

/// The query of Pyroscope's `/ingest`: the name of the application with its labels, and the time in
/// seconds.
fn query_of(series: &PprofSeries) -> String {
    let labels: Vec<String> = series
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={}", label_value(value)))
        .collect();
    let name = format!("{}{{{}}}", label_value(&series.service), labels.join(","));
    let seconds = |ns: u64| ns / 1_000_000_000;
    format!(
        "name={}&from={}&until={}&format=pprof&spyName=multiprocess-profiler",
        escaped(&name),
        seconds(series.from_ns),
        seconds(series.until_ns).max(seconds(series.from_ns) + 1),
    )
}

/// The most bytes of a value in an address, so that the address is not too long for a request.
const MAX_LABEL: usize = 256;

/// The beginning of a value, without the characters that end it.
fn label_value(value: &str) -> String {
    let value = value
        .get(..value.floor_char_boundary(MAX_LABEL))
        .unwrap_or_default();
    let plain = |letter: char| match letter {
        '{' | '}' | ',' | '=' | '"' => '_',
        letter if letter.is_control() => '_',
        letter => letter,
    };
    value.chars().map(plain).collect()
}

/// A text in a query, by RFC 3986.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::batch::BatchId;
    use super::*;
    use profiler_export::FleetTable;

    fn request(address: &str, kind: &BodyKind) -> PushRequest {
        let destination = PushDestination::parse(address).unwrap();
        let batch = BatchId::test("s1", 7);
        request_for(&destination, kind, &batch.body(3))
    }

    #[test]
    fn every_kind_of_body_has_its_path() {
        let url = |address: &str, kind: &BodyKind| request(address, kind).url;
        let otlp = "otlp+http://host:4318";
        assert_eq!(
            url(otlp, &BodyKind::OtlpTraces),
            "http://host:4318/v1/traces"
        );
        assert_eq!(
            url("otlp+http://host/otel", &BodyKind::OtlpProfiles),
            "http://host/otel/v1development/profiles"
        );
        let rows = BodyKind::ClickHouseRows {
            table: FleetTable::Samples,
        };
        assert_eq!(
            url("clickhouse+http://host:8123/my-fleet", &rows),
            "http://host:8123/?database=my-fleet&insert_distributed_sync=1&query=INSERT%20INTO%20\
             profiler_samples%20FORMAT%20JSONEachRow"
        );
        let series = PprofSeries {
            service: "shop".into(),
            labels: vec![("host", "a{b}".into()), ("group", "x,y".into())],
            from_ns: 5_900_000_000,
            until_ns: 5_900_000_000,
        };
        assert_eq!(
            url("pyroscope+http://host:4040", &BodyKind::Pprof(series)),
            "http://host:4040/ingest?name=shop%7Bhost%3Da_b_%2Cgroup%3Dx_y%7D&from=5&until=6\
             &format=pprof&spyName=multiprocess-profiler"
        );
    }

    #[test]
    fn a_label_of_any_length_makes_a_request_that_can_be_sent() {
        let long = "ä".repeat(100_000);
        let labels = ["group", "host", "process", "thread", "version"];
        let series = PprofSeries {
            service: long.clone(),
            labels: labels.map(|name| (name, long.clone())).into(),
            ..PprofSeries::default()
        };
        let request = request("pyroscope+http://host", &BodyKind::Pprof(series));
        assert!(request.url.len() < 8 << 10, "{}", request.url.len());
        assert!(request.url.parse::<ureq::http::Uri>().is_ok());
    }

    #[test]
    fn the_values_of_headers_are_not_shown() {
        let destination = PushDestination::parse("otlp+http://host").unwrap();
        let destination = destination.token(Secret::new("hunter2"));
        let body = BatchId::test("s1", 7);
        let request = request_for(&destination, &BodyKind::OtlpTraces, &body.body(3));
        let shown = format!("{request:?}");
        assert!(
            shown.contains("authorization") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn a_body_has_the_same_number_at_each_attempt() {
        let first = request("otlp+http://host", &BodyKind::OtlpTraces);
        assert_eq!(first, request("otlp+http://host", &BodyKind::OtlpTraces));
        assert_eq!(first.headers, [("idempotency-key", "s1-7-v1-3".to_owned())]);
    }

    #[test]
    fn secrets_are_in_the_headers_only() {
        let rows = BodyKind::ClickHouseRows {
            table: FleetTable::Spans,
        };
        for kind in [BodyKind::OtlpMetrics, rows] {
            let destination = PushDestination::parse("otlp+http://host").unwrap();
            let destination = destination.user("me", Secret::new("hunter2"));
            let batch = BatchId::test("s1", 7);
            let request = request_for(&destination, &kind, &batch.body(3));
            assert!(!request.url.contains("hunter2"));
            let basic = ("authorization", "Basic bWU6aHVudGVyMg==".to_owned());
            let is_otlp = kind == BodyKind::OtlpMetrics;
            assert!(request.headers.len() > 1);
            assert_eq!(request.headers.contains(&basic), is_otlp);
        }
    }

    #[test]
    fn parca_gets_the_profile_with_its_labels_in_json() {
        let series = PprofSeries {
            service: "shop".into(),
            labels: vec![("group", "checkout".into())],
            ..PprofSeries::default()
        };
        let kind = BodyKind::Pprof(series);
        let request = request("parca+http://host:7070", &kind);
        assert_eq!(request.url, "http://host:7070/profiles/writeraw");
        let destination = PushDestination::parse("parca+http://host:7070").unwrap();
        let body = body_for(&destination, &kind, b"foobar");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let series = &body["series"][0];
        assert_eq!(series["samples"][0]["rawProfile"], "Zm9vYmFy");
        assert_eq!(
            series["labels"]["labels"][2],
            json!({"name": "group", "value": "checkout"})
        );
    }
}
