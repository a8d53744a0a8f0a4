//! Attributes (`KeyValue`): a name and a typed value.
//!
//! Used for resources, spans, events and data points. Numbers of a payload stay numbers; lists and
//! objects keep their structure. Invariant: a text has at most [`MAX_TEXT`] bytes.

use serde_json::Value;

use super::super::proto::Message;

/// Fields of `AnyValue`.
mod any {
    pub(super) const TEXT: u64 = 1;
    pub(super) const BOOL: u64 = 2;
    pub(super) const INT: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const LIST: u64 = 5;
    pub(super) const OBJECT: u64 = 6;
}

/// Fields of `KeyValue`, and of the lists of both.
const KEY: u64 = 1;
const VALUE: u64 = 2;
const ITEMS: u64 = 1;

/// The largest number of bytes of a text. A longer one is cut.
const MAX_TEXT: usize = 16 * 1024;

/// Adds an attribute whose value is a text.
pub(super) fn add_text(field: u64, key: &str, text: &str, to: &mut Message) {
    add(field, key, &text_value(text), to);
}

/// Adds an attribute whose value is a number.
pub(super) fn add_number(field: u64, key: &str, number: i64, to: &mut Message) {
    add(field, key, &number_value(number), to);
}

/// Adds an attribute whose value is given as JSON. Returns whether it was one: null has no value.
pub(super) fn add_json(field: u64, key: &str, json: &str, to: &mut Message) -> bool {
    let value = of_json(json);
    if let Some(value) = &value {
        add(field, key, value, to);
    }
    value.is_some()
}

fn add(field: u64, key: &str, value: &Message, to: &mut Message) {
    to.message(field, &pair(key, value));
}

fn pair(key: &str, value: &Message) -> Message {
    let mut pair = Message::default();
    pair.bytes(KEY, key.as_bytes());
    pair.message(VALUE, value);
    pair
}

/// The message `AnyValue` of a text.
pub(super) fn text_value(text: &str) -> Message {
    let mut value = Message::default();
    value.bytes(any::TEXT, cut(text).as_bytes());
    value
}

/// The message `AnyValue` of a number.
pub(super) fn number_value(number: i64) -> Message {
    let mut value = Message::default();
    value.signed(any::INT, number);
    value
}

/// The message `AnyValue` of a value that is given as JSON.
fn of_json(json: &str) -> Option<Message> {
    // Most values need no parser. A value that is written as its text has no escapes.
    if let Ok(number) = json.parse() {
        return Some(number_value(number));
    }
    let text = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    match text.filter(|text| !text.contains('\\')) {
        Some(text) => Some(text_value(text)),
        None => of_value(&serde_json::from_str(json).ok()?),
    }
}

fn of_value(value: &Value) -> Option<Message> {
    let mut any = Message::default();
    match value {
        Value::Null => return None,
        Value::Bool(value) => any.any_number(any::BOOL, u64::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => any.signed(any::INT, number),
            None => any.double(any::DOUBLE, number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => return Some(text_value(text)),
        Value::Array(items) => {
            let mut list = Message::default();
            for item in items {
                list.message(ITEMS, &of_value(item).unwrap_or_default());
            }
            any.message(any::LIST, &list);
        }
        Value::Object(members) => {
            let mut object = Message::default();
            for (key, member) in members {
                let value = of_value(member).unwrap_or_default();
                object.message(ITEMS, &pair(key, &value));
            }
            any.message(any::OBJECT, &object);
        }
    }
    Some(any)
}

/// The beginning of a text, up to a limit.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.get(..end).unwrap_or(text)
}
