//! The typed fields of an event (`DebugAnnotation`): numbers stay numbers.
//!
//! Used by [`super::markers`] and [`super::verdicts`]. Lists and objects keep their structure. A
//! field without a value (null) is left out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::payload::Payload;
use super::super::proto::Message;
use super::interned::{Interned, NameKind};

/// The field of `TrackEvent`.
const ANNOTATIONS: u64 = 4;

/// Fields of `DebugAnnotation`.
mod field {
    pub(super) const NAME_IID: u64 = 1;
    pub(super) const BOOL: u64 = 2;
    pub(super) const UINT: u64 = 3;
    pub(super) const INT: u64 = 4;
    pub(super) const DOUBLE: u64 = 5;
    pub(super) const TEXT: u64 = 6;
    pub(super) const NAME: u64 = 10;
    pub(super) const MEMBERS: u64 = 11;
    pub(super) const ITEMS: u64 = 12;
}

/// Adds the members of a marker's payload to an event.
pub(super) fn add_payload(payload: &Payload<'_>, interned: &mut Interned, event: &mut Message) {
    let mut annotation = Message::default();
    for (key, json) in payload.members() {
        annotation.clear();
        match interned.name(NameKind::Annotation, key) {
            Some(iid) => annotation.number(field::NAME_IID, iid),
            None => annotation.bytes(field::NAME, key.as_bytes()),
        }
        if add_json(json, &mut annotation) {
            event.message(ANNOTATIONS, &annotation);
        }
    }
}

/// Adds a value that is given as JSON. Returns whether it is one.
fn add_json(json: &str, to: &mut Message) -> bool {
    // Most values need no parser. A value that is written as its text has no escapes.
    if let Ok(number) = json.parse() {
        to.signed(field::INT, number);
        return true;
    }
    let text = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    if let Some(text) = text.filter(|text| !text.contains('\\')) {
        to.bytes(field::TEXT, text.as_bytes());
        return true;
    }
    serde_json::from_str(json).is_ok_and(|value| add_value(&value, to))
}

fn add_value(value: &Value, to: &mut Message) -> bool {
    match value {
        Value::Null => return false,
        Value::Bool(value) => to.any_number(field::BOOL, u64::from(*value)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => to.signed(field::INT, number),
            (None, Some(number)) => to.any_number(field::UINT, number),
            (None, None) => to.double(field::DOUBLE, number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => to.bytes(field::TEXT, text.as_bytes()),
        Value::Array(items) => {
            for item in items {
                let mut annotation = Message::default();
                add_value(item, &mut annotation);
                to.message(field::ITEMS, &annotation);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let mut annotation = named(key);
                if add_value(member, &mut annotation) {
                    to.message(field::MEMBERS, &annotation);
                }
            }
        }
    }
    true
}

/// Adds a text to an event.
pub(super) fn add_text(name: &str, text: &str, event: &mut Message) {
    let mut annotation = named(name);
    annotation.bytes(field::TEXT, text.as_bytes());
    event.message(ANNOTATIONS, &annotation);
}

/// Adds a number to an event.
pub(super) fn add_number(name: &str, number: u64, event: &mut Message) {
    event.message(ANNOTATIONS, &numbered(name, number));
}

/// Adds numbers with names to an event, as one field; none if there are none.
pub(super) fn add_numbers(name: &str, numbers: &BTreeMap<String, u64>, event: &mut Message) {
    if numbers.is_empty() {
        return;
    }
    let mut annotation = named(name);
    for (name, number) in numbers {
        annotation.message(field::MEMBERS, &numbered(name, *number));
    }
    event.message(ANNOTATIONS, &annotation);
}

fn named(name: &str) -> Message {
    let mut annotation = Message::default();
    annotation.bytes(field::NAME, name.as_bytes());
    annotation
}

fn numbered(name: &str, number: u64) -> Message {
    let mut annotation = named(name);
    annotation.any_number(field::UINT, number);
    annotation
}
