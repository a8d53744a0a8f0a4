//! The request for a body: its address and its headers.
//!
//! Used by the sender. Pure. Every request has a number that is the same at each attempt
//! (`Idempotency-Key`), so a proxy or an engine can recognise a body that it already has.

use super::batch::BodyId;
use super::destination::{Authorization, PushDestination};
use super::http_client::PushRequest;
use crate::export::bodies::{BodyKind, PprofSeries};

const PROTOBUF: &str = "application/x-protobuf";
const BYTES: &str = "application/octet-stream";
const ROWS: &str = "application/x-ndjson";

/// The request for a body of this kind.
pub(super) fn request_for(
    destination: &PushDestination,
    kind: &BodyKind,
    id: &BodyId<'_>,
) -> PushRequest {
    let PushDestination { base, path, .. } = destination;
    let (url, content_type) = match kind {
        BodyKind::OtlpTraces => (format!("{base}{path}/v1/traces"), PROTOBUF),
        BodyKind::OtlpMetrics => (format!("{base}{path}/v1/metrics"), PROTOBUF),
        BodyKind::OtlpProfiles => (format!("{base}{path}/v1development/profiles"), PROTOBUF),
        BodyKind::Pprof(series) => (format!("{base}{path}/ingest?{}", query_of(series)), BYTES),
        BodyKind::ClickHouseRows { table } => {
            let database = path.trim_start_matches('/');
            let database = if database.is_empty() {
                "default"
            } else {
                database
            };
            let insert = format!("INSERT INTO {database}.{table} FORMAT JSONEachRow");
            (format!("{base}/?query={}", escaped(&insert)), ROWS)
        }
    };
    let mut headers = vec![("idempotency-key", id.to_string())];
    headers.extend(authorization(destination, kind));
    PushRequest {
        url,
        content_type,
        headers,
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
            let pair = base64(format!("{name}:{}", password.reveal()).as_bytes());
            vec![("authorization", format!("Basic {pair}"))]
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

/// A value without the characters that end it.
fn label_value(value: &str) -> String {
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

/// Base64 by RFC 4648, for the header of a user and a password.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let word = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let word = (word[0] << 16) | (word[1] << 8) | word[2];
        for digit in 0..4 {
            let value = (word >> (18 - 6 * digit)) & 63;
            let letter = DIGITS.get(value as usize).copied().unwrap_or(b'=');
            out.push(if digit > group.len() {
                '='
            } else {
                char::from(letter)
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::batch::BatchId;
    use super::super::destination::Secret;
    use super::*;

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
        let rows = BodyKind::ClickHouseRows { table: "samples" };
        assert_eq!(
            url("clickhouse+http://host:8123/fleet", &rows),
            "http://host:8123/?query=INSERT%20INTO%20fleet.samples%20FORMAT%20JSONEachRow"
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
    fn a_body_has_the_same_number_at_each_attempt() {
        let first = request("otlp+http://host", &BodyKind::OtlpTraces);
        assert_eq!(first, request("otlp+http://host", &BodyKind::OtlpTraces));
        assert_eq!(first.headers, [("idempotency-key", "s1-7-3".to_owned())]);
    }

    #[test]
    fn secrets_are_in_the_headers_only() {
        let rows = BodyKind::ClickHouseRows { table: "spans" };
        for kind in [BodyKind::OtlpMetrics, rows] {
            let destination = PushDestination::parse("otlp+http://host").unwrap();
            let destination = destination.user("me", Secret::new("hunter2"));
            let batch = BatchId::test("s1", 7);
            let request = request_for(&destination, &kind, &batch.body(3));
            assert!(!request.url.contains("hunter2"));
            assert!(request.headers.len() > 1);
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let encoded =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        assert_eq!(
            encoded,
            [
                "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"
            ]
        );
    }
}
