//! Compares the parser with serde_json, with text in pieces of any length.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// A reader that returns a few bytes at a time.
struct Pieces<'t> {
    text: &'t [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (piece, rest) = self.text.split_at(self.size.min(self.text.len()));
        self.text = rest;
        room[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

fn read<T: for<'de> Deserialize<'de>>(text: &[u8], size: usize) -> Result<T, ParseError> {
    let known = Extents::default();
    let mut parser = Parser::new(Stream(Pieces { text, size }), &known);
    let value = T::deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// The text of a value that is not a list.
fn raw(text: &[u8], size: usize) -> Result<String, ParseError> {
    let known = Extents::default();
    let mut parser = Parser::new(Stream(Pieces { text, size }), &known);
    let value = list_or_text(&mut parser, AsText)?;
    parser.end()?;
    Ok(value)
}

struct AsText;

impl<'de> Visitor<'de> for AsText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok("[]".to_owned())
    }
}

/// Any JSON, with all kinds of numbers, escapes and white space.
fn json() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,22})?([eE][+-]?[0-9]{1,2})?";
    let text = "\"([a-z é€😀]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-fA-F]{2}){0,12}\"";
    let leaf = prop_oneof![
        number,
        text,
        Just("null".to_owned()),
        Just("true".to_owned())
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let space = "[ \n\t]{0,2}";
        let items = prop::collection::vec((space, inner.clone()), 0..6);
        let members = prop::collection::vec((text, space, inner), 0..6);
        let list = items.prop_map(|items| {
            let items: Vec<_> = items
                .iter()
                .map(|(s, value)| format!("{s}{value}{s}"))
                .collect();
            format!("[{}]", items.join(","))
        });
        let object = members.prop_map(|members| {
            let member =
                |(key, s, value): &(String, String, String)| format!("{s}{key}{s}:{value}{s}");
            let members: Vec<_> = members.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        });
        prop_oneof![list, object]
    })
}

/// Compares all ways to read a text with serde_json.
fn compare(text: &[u8], size: usize) {
    let expected = serde_json::from_slice::<Value>(text);
    let found = read::<Value>(text, size);
    assert_eq!(
        found.as_ref().ok(),
        expected.as_ref().ok(),
        "{found:?}, {expected:?}"
    );
    let skipped = serde_json::from_slice::<IgnoredAny>(text);
    let found = read::<IgnoredAny>(text, size);
    assert_eq!(found.is_ok(), skipped.is_ok(), "{found:?}, {skipped:?}");
    if let (Ok(raw), Ok(text)) = (raw(text, size), std::str::from_utf8(text)) {
        assert!(
            raw == "[]" || raw == text.trim_matches([' ', '\n', '\t', '\r']),
            "{raw}"
        );
    }
}

proptest! {
    #[test]
    fn any_text_is_read_as_serde_json_reads_it(text in json(), size in 1..40_usize) {
        prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
        compare(text.as_bytes(), size);
        prop_assert!(raw(text.as_bytes(), size).is_ok());
    }

    #[test]
    fn a_changed_text_is_refused_as_serde_json_refuses_it(
        text in json(),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(&b"[]{},:\"\\0-.e1ntu"[..])],
        cut in any::<bool>(),
        size in 1..40_usize,
    ) {
        let mut text = text.into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        text.truncate(if cut { at } else { text.len() });
        compare(&text, size);
    }
}

#[test]
fn deep_nesting_is_refused_when_it_is_read_but_not_when_it_is_skipped() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(read::<Value>(deep.as_bytes(), 4096).is_err());
    assert!(read::<IgnoredAny>(deep.as_bytes(), 4096).is_ok());
}

#[test]
fn a_skipped_value_that_is_nested_without_end_is_refused() {
    let known = Extents::default();
    let mut parser = Parser::new(Stream(io::repeat(b'[').take(64 << 20)), &known);
    let error = IgnoredAny::deserialize(&mut parser).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("expected less nesting at byte {}", 1 << 20)
    );
}

#[test]
fn nesting_ends_where_that_of_serde_json_ends() {
    for depth in [126, 127, 128, 129] {
        let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        compare(text.as_bytes(), 40);
    }
}

#[test]
fn a_skipped_value_needs_no_memory() {
    let quote = &b"\""[..];
    let text = quote.chain(io::repeat(b'x').take(64 << 20)).chain(quote);
    let known = Extents::default();
    let mut parser = Parser::new(Stream(text), &known);
    IgnoredAny::deserialize(&mut parser).unwrap();
    assert!(parser.window.capacity() < 1 << 20);
}

#[test]
fn an_error_says_where_it_is() {
    let error = |text: &str| read::<BTreeMap<String, u64>>(text.as_bytes(), 7).unwrap_err();
    assert_eq!(error(r#"{"a":1,]"#).to_string(), "expected a key at byte 7");
    assert_eq!(
        error(r#"{"a":1"#).to_string(),
        "it ends too early, after 6 bytes"
    );
    assert!(matches!(error(r#"{"a":"x"}"#), ParseError::Form { .. }));
}

#[test]
fn a_second_pass_jumps_over_long_values_and_reads_the_others() {
    let long = format!("[{}{{}}]", "[1,\"]\"],".repeat(20_000));
    let text = format!(r#"{{"a":{long},"b":[{long}, 7, {long}],"c":{{"d":{long},"e":8}}}} "#);
    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct NestedMember {
        e: u32,
    }
    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Outer {
        b: (IgnoredAny, u32, IgnoredAny),
        c: NestedMember,
    }
    let none = Extents::default();
    let mut first = Parser::new(Stream(text.as_bytes()), &none);
    IgnoredAny::deserialize(&mut first).unwrap();
    let (length, known) = first.end().unwrap();
    assert_eq!(length, text.len() as u64);
    let mut second = Parser::new(Stream(text.as_bytes()), &known);
    let read = Outer::deserialize(&mut second).unwrap();
    assert_eq!((read.b.1, read.c.e), (7, 8));
    let (length, noted) = second.end().unwrap();
    assert_eq!(length, text.len() as u64);
    assert!(noted.end(5).is_none(), "it was not skipped again");
    assert!(known.end(5).is_some());
}
