//! Edited JSON: a valid document with changes that the bytes of an input describe. Mutated text
//! rarely parses. An edited document always parses, and contains values that our writers never
//! write.
//!
//! Used by `foreign_files` and by fuzz targets. An edit has four bytes: the place (two bytes,
//! counted over the whole document), the kind of the edit, and its operand.

use serde_json::{Value, json};

/// Maximum number of edits of one input.
const MAX_EDITS: usize = 64;
/// Maximum number of values of a document; further edits do not add values.
const MAX_VALUES: usize = 20_000;

/// A number that may cause errors.
fn number(with: u8) -> Value {
    const INTEGERS: [u64; 8] = [
        0,
        1,
        2,
        u32::MAX as u64 - 1,
        u32::MAX as u64,
        1 << 53,
        1 << 63,
        u64::MAX,
    ];
    const FLOATS: [f64; 12] = [
        -1.0,
        0.5,
        -0.0,
        1e-300,
        1e9,
        9.3e12,
        1e15,
        1e300,
        -1e300,
        f64::MAX,
        f64::MIN,
        4_294_967_295.5,
    ];
    let with = usize::from(with);
    match (INTEGERS.get(with), FLOATS.get(with.saturating_sub(8))) {
        (Some(integer), _) => json!(integer),
        (None, Some(float)) => json!(float),
        (None, None) if with >= 128 => json!(with - 128),
        (None, None) => json!(-(with as f64) * 1e11),
    }
}

fn text(with: u8) -> Value {
    const TEXTS: [&str; 16] = [
        "",
        "0x10",
        "0xffffffffffffffff",
        "0x",
        "-1",
        "12.1",
        "12.99999999999999999999",
        "\u{0}\n\r;/\"\\",
        "ä\u{10ffff}",
        "../..",
        "GeckoMain",
        "tracing-ms",
        "samples",
        "ns",
        "flow-id",
        "unique-string",
    ];
    match TEXTS.get(usize::from(with)) {
        Some(text) => json!(text),
        None => json!("x".repeat(usize::from(with))),
    }
}

/// The number of values in a document, including itself.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(items) => 1 + items.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// The value with this number. The document itself has the number 0.
fn at<'v>(value: &'v mut Value, place: &mut usize) -> Option<&'v mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| at(item, place)),
        Value::Object(items) => items.values_mut().find_map(|item| at(item, place)),
        _ => None,
    }
}

fn edit(document: &mut Value, edit: &[u8]) {
    let &[low, high, how, with] = edit else {
        return;
    };
    let all = count(document);
    let place = usize::from(u16::from_le_bytes([low, high])) % all;
    let other = at(document, &mut (usize::from(with).wrapping_mul(257) % all)).cloned();
    let Some(value) = at(document, &mut { place }) else {
        return;
    };
    match (how % 12, value) {
        (0 | 1, value) => *value = number(with),
        (2, value) => *value = text(with),
        (3, value) => *value = Value::Null,
        (4, value) => {
            *value =
                [json!([]), json!({}), json!(true), json!([[null]])][usize::from(with) % 4].clone()
        }
        (5, value) => *value = other.filter(|other| count(other) < 200).unwrap_or_default(),
        (6, Value::Array(items)) if all + count_all(items) < MAX_VALUES => {
            items.extend_from_within(..)
        }
        (7, Value::Array(items)) => items.truncate(usize::from(with)),
        (8, Value::Array(items)) => {
            let by = usize::from(with) % items.len().max(1);
            items.rotate_left(by);
        }
        (9, Value::Array(items)) => items.iter_mut().for_each(|item| *item = number(with)),
        (10, Value::Array(items)) => {
            // Ascending numbers: chains of callers, or increasing times.
            (0..items.len())
                .for_each(|n| items[n] = if n == 0 { Value::Null } else { json!(n - 1) });
        }
        (6.., Value::Object(items)) => {
            let key = items
                .keys()
                .nth(usize::from(with) % items.len().max(1))
                .cloned();
            key.map(|key| items.remove(&key));
        }
        (_, value) => *value = json!(with),
    }
}

fn count_all(items: &[Value]) -> usize {
    items.iter().map(count).sum()
}

/// The text of an input: the input itself if it is JSON or compressed, otherwise one of `documents`
/// with edits.
pub(crate) fn text_of(input: &[u8], documents: &[&str]) -> Vec<u8> {
    let Some((first, edits)) = input.split_first() else {
        return Vec::new();
    };
    if matches!(first, b'{' | b'[' | 0x1f) {
        return input.to_vec();
    }
    let chosen = documents[usize::from(*first) % documents.len()];
    let mut document: Value = serde_json::from_str(chosen).expect("a valid document");
    edits
        .chunks_exact(4)
        .take(MAX_EDITS)
        .for_each(|bytes| edit(&mut document, bytes));
    document.to_string().into_bytes()
}
