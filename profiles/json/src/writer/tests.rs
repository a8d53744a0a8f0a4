//! Tests the JSON writer against serde_json: written values must read back unchanged.

use std::io;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn written(write: impl FnOnce(&mut JsonWriter<Vec<u8>>)) -> String {
    let mut writer = JsonWriter::new(Vec::new());
    write(&mut writer);
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// Texts of plain, escaped and long characters.
fn any_text() -> impl Strategy<Value = String> {
    let character =
        prop_oneof![6 => any::<u8>().prop_map(|byte| char::from(byte & 127)), 1 => any::<char>()];
    prop::collection::vec(character, 0..20).prop_map(|characters| characters.into_iter().collect())
}

/// Values that a profile may contain, except floats, because `1.0` may be written as `1`.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn write_value(out: &mut JsonWriter<Vec<u8>>, value: &Value) {
    match value {
        Value::Null => out.null(),
        Value::Bool(value) => out.bool(*value),
        Value::Number(number) => match number.as_u64() {
            Some(number) => out.u64(number),
            None => out.i64(number.as_i64().unwrap()),
        },
        Value::String(text) => out.string(text),
        Value::Array(values) => {
            out.begin_array();
            values.iter().for_each(|value| write_value(out, value));
            out.end_array();
        }
        Value::Object(map) => {
            out.begin_object();
            for (key, value) in map {
                out.key(key);
                write_value(out, value);
            }
            out.end_object();
        }
    }
}

proptest! {
    #[test]
    fn written_values_read_back_unchanged(value in any_value()) {
        let text = written(|out| write_value(out, &value));
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn finite_numbers_read_back_bit_by_bit(value in any::<f64>()) {
        let text = written(|out| out.f64(value));
        if value.is_finite() {
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits());
            serde_json::from_str::<Value>(&text).unwrap();
        } else {
            prop_assert_eq!(text, "null");
        }
    }

    #[test]
    fn milliseconds_are_the_exact_decimal_fraction(ns in any::<i64>()) {
        let text = written(|out| out.millis_ns(ns));
        let magnitude = ns.unsigned_abs();
        let long = format!("{}.{:06}", magnitude / 1_000_000, magnitude % 1_000_000);
        let short = long.trim_end_matches('0').trim_end_matches('.');
        prop_assert_eq!(text, format!("{}{short}", if ns < 0 { "-" } else { "" }));
    }
}

#[test]
fn milliseconds_have_no_trailing_zeros_and_no_empty_point() {
    let texts = [
        0,
        1,
        1_500_000,
        10_000_000,
        -250_000,
        1_000_001,
        123_456_789,
    ]
    .map(|ns| written(|out| out.millis_ns(ns)));
    assert_eq!(
        texts,
        [
            "0",
            "0.000001",
            "1.5",
            "10",
            "-0.25",
            "1.000001",
            "123.456789"
        ]
    );
}

#[test]
fn every_control_character_is_escaped() {
    let text: String =
        (0..0x30_u8).map(char::from).collect::<String>() + "\\\u{7f}\u{2028}\u{2029}\u{10ffff}";
    let json = written(|out| out.string(&text));
    assert!(json.bytes().all(|byte| byte >= 0x20));
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
}

#[test]
fn commas_stand_between_values_only() {
    let text = written(|out| {
        out.begin_object();
        out.entry_u64("a", 1);
        out.key("b");
        out.begin_array();
        out.begin_array();
        out.end_array();
        out.begin_object();
        out.end_object();
        out.raw("[1,2]");
        out.end_array();
        out.entry_millis_ns("c", None);
        out.end_object();
    });
    assert_eq!(text, r#"{"a":1,"b":[[],{},[1,2]],"c":null}"#);
}

#[test]
fn a_prepared_key_is_written_like_a_plain_one() {
    let key = "a \"quoted\"\n key";
    let prepared = PreparedKey::new(key);
    let text = written(|out| {
        out.begin_object();
        out.prepared_key(&prepared);
        out.null();
        out.prepared_key(&PreparedKey::new("b"));
        out.bool(true);
        out.end_object();
    });
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({ key: null, "b": true })
    );
}

#[test]
fn whole_floats_have_no_point() {
    assert_eq!(
        [1.0, -0.0, 0.5, 1e300].map(|value| written(|out| out.f64(value))),
        ["1", "-0", "0.5", "1e+300"]
    );
}

#[test]
fn strings_longer_than_the_buffer_arrive_whole_and_are_counted() {
    let long = "ü\"".repeat(BUFFER_BYTES) + &"x".repeat(3 * BUFFER_BYTES);
    let mut writer = JsonWriter::new(Vec::new());
    writer.begin_array();
    writer.string(&long);
    writer.string("tail");
    writer.end_array();
    let expected = writer.bytes_written();
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, expected);
    assert_eq!(
        serde_json::from_slice::<Value>(&bytes).unwrap(),
        json!([long, "tail"])
    );
}

#[test]
fn the_first_failure_of_the_output_is_kept_and_returned() {
    struct Full(u32);
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            Err(io::Error::other(format!("failure {}", self.0)))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer = JsonWriter::new(Full(0));
    writer.begin_array();
    while !writer.is_failed() {
        writer.string("again and again");
    }
    (0..100_000).for_each(|number| writer.u64(number));
    writer.end_array();
    assert_eq!(
        writer.finish().map(|_| ()).unwrap_err().to_string(),
        "failure 1"
    );
}
