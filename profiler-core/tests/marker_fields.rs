//! Tests of the fields that recording macros take: they are read back with their names and types.

use std::path::Path;
use std::time::Duration;

use profiler_core::internal::entry::{Entry, Timing};
use profiler_core::internal::payload::PayloadReader;
use profiler_core::marker::schema::Format;
use profiler_core::marker::{MarkerOptions, MarkerStack, category};
use profiler_core::time::Timestamp;
use profiler_core::{marker, scope, session, span, text_marker};
use test_support::own_process;

use crate::support::{self, RunningSession, for_each_entry};

/// A marker that was read: its name, its timing, and its fields with their values.
#[derive(Debug, PartialEq)]
struct Read {
    name: String,
    category: String,
    timing: &'static str,
    fields: Vec<(String, String)>,
}

fn read() -> Vec<Read> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let definitions = &snapshot.definitions;
    let mut all = Vec::new();
    for_each_entry(&reader, &snapshot, |entry| {
        let Entry::Marker(marker) = entry else { return };
        let site = definitions.site(marker.site).unwrap();
        let keys = definitions.marker_type(site.marker_type);
        let keys = keys.map(|of| of.keys.clone()).unwrap_or_default();
        let values = PayloadReader::new(marker.payload);
        let values = values.map(|value| format!("{:?}", value.unwrap()));
        all.push(Read {
            name: marker.name.unwrap_or(&site.name).to_owned(),
            category: definitions.category(site.category).unwrap().name.clone(),
            timing: match marker.timing {
                Timing::Instant(_) => "instant",
                Timing::Interval(..) => "interval",
                Timing::Start(_) => "start",
                Timing::End(_) => "end",
            },
            fields: keys.into_iter().zip(values).collect(),
        });
    });
    all
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

#[test]
fn fields_of_a_marker_are_read_back_with_their_names() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let url = String::from("index.html");
    for bytes in [17_u64, 18] {
        marker!("load", url = url, bytes = bytes);
    }
    let start = Timestamp::now();
    let options = MarkerOptions::interval_until_now_from(start);
    marker!(
        "by name",
        category = &category::IO,
        options = options,
        ok = true
    );
    marker!("category", category = &category::IO, rate = 0.5);
    marker!("options", options = options, code = -1);
    marker!("no fields", category = &category::IO, options = options);
    let stack = MarkerOptions::default().with_stack(MarkerStack::Labels);
    marker!("stack", options = stack, depth = 3_usize);
    let expected = [
        (
            "load",
            "Other",
            "instant",
            fields(&[("url", "Str(\"index.html\")"), ("bytes", "U64(17)")]),
        ),
        (
            "load",
            "Other",
            "instant",
            fields(&[("url", "Str(\"index.html\")"), ("bytes", "U64(18)")]),
        ),
        (
            "by name",
            "I/O",
            "interval",
            fields(&[("ok", "Bool(true)")]),
        ),
        (
            "category",
            "I/O",
            "instant",
            fields(&[("rate", "F64(0.5)")]),
        ),
        (
            "options",
            "Other",
            "interval",
            fields(&[("code", "I64(-1)")]),
        ),
        ("no fields", "I/O", "interval", fields(&[])),
        ("stack", "Other", "instant", fields(&[("depth", "U64(3)")])),
    ];
    let read: Vec<_> = read()
        .into_iter()
        .map(|read| (read.name, read.category, read.timing, read.fields))
        .collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(name, category, timing, fields)| {
            (name.to_owned(), category.to_owned(), timing, fields)
        })
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn a_scope_keeps_the_values_of_its_beginning() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let mut user = 42;
    let tenant = String::from("example.org");
    let scope = scope!("request", tenant = &tenant, user = user);
    user += 1;
    drop(scope);
    drop(scope!("in I/O", category = &category::IO, user = user));
    let read = read();
    assert_eq!(read[0].timing, "interval");
    let first = fields(&[("tenant", "Str(\"example.org\")"), ("user", "I64(42)")]);
    assert_eq!(read[0].fields, first);
    assert_eq!(read[1].fields, fields(&[("user", "I64(43)")]));
    assert_eq!(read[1].category, "I/O");
}

#[test]
fn start_and_end_of_a_span_with_fields_have_its_number() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let span = span!(
        "request",
        category = &category::IO,
        tenant = "a",
        user = 7_u32
    );
    let number = format!("U64({})", span.id().unwrap());
    drop(span);
    let read = read();
    let start = fields(&[
        ("span", &number),
        ("tenant", "Str(\"a\")"),
        ("user", "U64(7)"),
    ]);
    assert_eq!((read[0].timing, &read[0].fields), ("start", &start));
    assert_eq!(
        (read[1].timing, &read[1].fields),
        ("end", &fields(&[("span", &number)]))
    );
    let snapshot = support::snapshot();
    let types = snapshot.definitions.marker_types();
    let [request] = types[..] else {
        panic!("{types:?}")
    };
    assert_eq!(
        request.schema.name,
        "Span request (tenant: string, user: integer)"
    );
}

#[test]
fn the_types_of_the_values_decide_how_they_are_shown() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let nothing: Option<u8> = None;
    marker!(
        "all",
        path = Path::new("/etc/passwd"),
        took = Duration::from_micros(1500),
        letter = 'ä',
        text = format_args!("{}-{}", 1, 2),
        nothing = nothing,
        some = Some("x"),
        nested = &&5_i8,
    );
    let snapshot = support::snapshot();
    let types = snapshot.definitions.marker_types();
    let formats = types[0].schema.fields().map(|field| field.format.clone());
    let expected = [
        Format::FilePath,
        Format::Duration,
        Format::String,
        Format::String,
        Format::Integer,
        Format::String,
        Format::Integer,
    ];
    assert!(formats.eq(expected.map(Into::into)));
    let values: Vec<String> = read()
        .remove(0)
        .fields
        .into_iter()
        .map(|field| field.1)
        .collect();
    let expected = [
        "Str(\"/etc/passwd\")",
        "F64(1.5)",
        "Str(\"ä\")",
        "Str(\"1-2\")",
        "None",
        "Str(\"x\")",
        "I64(5)",
    ];
    assert_eq!(values, expected);
}

#[test]
fn without_a_session_no_field_is_evaluated() {
    own_process!();
    let never = || -> u64 { panic!("a field was evaluated") };
    marker!("load", bytes = never());
    let _scope = scope!("scope", bytes = never());
    let span = span!("span", bytes = never());
    assert_eq!(span.id(), None);
}

#[test]
fn a_scope_and_a_span_that_outlive_their_session_record_nothing_false() {
    own_process!();
    let first = RunningSession::with_limit(1 << 20);
    let open = (scope!("scope", user = 1), span!("span", user = 1));
    drop(first);
    let _second = RunningSession::with_limit(1 << 20);
    assert!(session::is_active());
    drop(open);
    marker!("after", user = 2);
    let read = read();
    let span_types: Vec<&Read> = read.iter().filter(|read| read.name == "span").collect();
    assert!(span_types.is_empty(), "{span_types:?}");
}

#[test]
fn category_and_options_of_a_text_marker_may_be_left_out() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    text_marker!("open", "Cargo.toml");
    text_marker!("open", &category::IO, "Cargo.lock");
    let read = read();
    assert_eq!(read[0].fields, fields(&[("name", "Str(\"Cargo.toml\")")]));
    assert_eq!(read[0].category, "Other");
    assert_eq!(read[1].fields, fields(&[("name", "Str(\"Cargo.lock\")")]));
    assert_eq!(read[1].category, "I/O");
}
