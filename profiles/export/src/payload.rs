//! The payload of a marker, for a trace event.
//!
//! Used by the formats with markers. The members of the payload are written in the order of their
//! keys, with their texts written out. Invariant: members are slices of the profile's text; only
//! values that may be written in another way than their text are parsed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;

use profiler_json::JsonWriter;
use profiler_json::position_of_escape;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use profiler_reader::{Flow, NodeId, TextField};

/// The payload of a marker.
#[derive(Debug, Default)]
pub(super) struct Payload<'m> {
    /// Sorted by key, with values as JSON; `None` without a payload.
    members: Option<Vec<(Cow<'m, str>, Cow<'m, str>)>>,
    /// The flows that it belongs to, in the order of the schema.
    flows: Vec<(&'m str, Flow)>,
    /// JSON of the stack at which the marker was recorded.
    cause: Option<&'m str>,
}

/// The stack of a payload in the processed format.
#[derive(Deserialize)]
struct Cause {
    stack: Option<u32>,
}

impl<'m> Payload<'m> {
    /// Reads a payload. `fields` has the members that are indices into `texts`, by type.
    pub(super) fn of(
        data: Option<&'m str>,
        fields: &HashMap<String, Vec<TextField>>,
        texts: &'m [String],
    ) -> Self {
        let parsed = data.and_then(|data| serde_json::from_str::<ObjectMembers<'_>>(data).ok());
        parsed
            .and_then(|members| Self::of_members(members.sorted(), fields, texts))
            .unwrap_or_default()
    }

    fn of_members(
        members: Vec<(Cow<'m, str>, &'m RawValue)>,
        fields: &HashMap<String, Vec<TextField>>,
        texts: &'m [String],
    ) -> Option<Self> {
        let cause = members.iter().find(|(key, _)| key == "cause");
        let cause = cause.map(|(_, value)| value.get());
        // Stacks refer to tables of the profile.
        let members = members
            .into_iter()
            .filter(|(key, _)| key != "cause" && key != "stack");
        let members = members.map(|(key, value)| Some((key, as_written(value.get())?)));
        let members: Option<Vec<(Cow<'m, str>, Cow<'m, str>)>> = members.collect();
        let mut payload = Self {
            members: Some(members?),
            flows: Vec::new(),
            cause,
        };
        let kind = payload.kind();
        for field in fields.get(kind.as_ref()).into_iter().flatten() {
            payload.write_out(field, texts);
        }
        Some(payload)
    }

    /// Replaces an index by its text.
    fn write_out(&mut self, field: &TextField, texts: &'m [String]) {
        let members = self.members.iter_mut().flatten();
        let Some((_, value)) = members.into_iter().find(|(key, _)| *key == field.key) else {
            return;
        };
        let index = value.parse().ok();
        let Some(text) = index.and_then(|index: usize| texts.get(index)) else {
            return;
        };
        *value = Cow::Owned(Value::from(text.as_str()).to_string());
        self.flows
            .extend(field.flow.map(|flow| (text.as_str(), flow)));
    }

    /// The members in the order of their keys, with their values as JSON. Stacks are left out.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &str)> {
        let members = self.members.iter().flatten();
        members.map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// The flows that the marker belongs to.
    pub(super) fn flows(&self) -> &[(&'m str, Flow)] {
        &self.flows
    }

    /// The stack at which the marker was recorded, if it is one of the tables that threads share.
    pub(super) fn stack(&self) -> Option<NodeId> {
        let cause: Cause = serde_json::from_str(self.cause?).ok()?;
        cause.stack.map(NodeId)
    }

    fn get(&self, key: &str) -> Option<&Cow<'m, str>> {
        let mut members = self.members.iter().flatten();
        members
            .find(|(known, _)| known == key)
            .map(|(_, value)| value)
    }

    /// The payload's type; empty if it has none.
    pub(super) fn kind(&self) -> Cow<'m, str> {
        let quoted = match self.get("type") {
            // A value that is written as its text has no escapes.
            Some(Cow::Borrowed(text)) => text.strip_prefix('"'),
            Some(Cow::Owned(text)) => {
                return Cow::Owned(serde_json::from_str(text).unwrap_or_default());
            }
            None => None,
        };
        let kind = quoted.and_then(|text| text.strip_suffix('"'));
        Cow::Borrowed(kind.unwrap_or_default())
    }

    /// Writes the payload and ends the event.
    pub(super) fn end<W: Write>(self, out: &mut JsonWriter<W>) {
        if let Some((id, flow)) = self.flows.first() {
            out.entry_str("bind_id", &format!("0x{id}"));
            out.entry_bool("flow_in", true);
            out.entry_bool("flow_out", *flow == Flow::Goes);
        }
        out.key("args");
        out.begin_object();
        if let Some(members) = &self.members {
            out.key("data");
            out.begin_object();
            for (key, value) in members {
                if position_of_escape(key.as_bytes()).is_none() {
                    out.key(key);
                    out.raw(value);
                } else {
                    let key = Value::from(key.as_ref());
                    out.raw(&format!("{key}:{value}"));
                }
            }
            out.end_object();
        }
        out.end_object();
        out.end_object();
    }
}

/// A value as serde_json writes it; `None` if it is out of range.
fn as_written(text: &str) -> Option<Cow<'_, str>> {
    let is_same = match text.as_bytes() {
        [b'"', inner @ .., b'"'] => position_of_escape(inner).is_none(),
        [b'n' | b't' | b'f', ..] | b"0" | b"[]" | b"{}" => true,
        // Some longer numbers become floats.
        [b'-', b'1'..=b'9', digits @ ..] | [b'1'..=b'9', digits @ ..] => {
            digits.len() < 18 && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    if is_same {
        return Some(Cow::Borrowed(text));
    }
    let value: Value = serde_json::from_str(text).ok()?;
    Some(Cow::Owned(value.to_string()))
}

/// The members of an object, in the order of the text.
struct ObjectMembers<'m>(Vec<(Cow<'m, str>, &'m RawValue)>);

impl<'m> ObjectMembers<'m> {
    /// The members in the order of their keys. Of members with the same key, only the last counts.
    fn sorted(self) -> Vec<(Cow<'m, str>, &'m RawValue)> {
        let Self(mut members) = self;
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.reverse();
        members.dedup_by(|(one, _), (other, _)| one == other);
        members.reverse();
        members
    }
}

impl<'de: 'm, 'm> Deserialize<'de> for ObjectMembers<'m> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MembersVisitor).map(Self)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(4);
        while let Some((Key(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        Ok(members)
    }
}

/// A key, borrowed unless it has escapes.
struct Key<'m>(Cow<'m, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(KeyVisitor).map(Self)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn written(data: &str, fields: &HashMap<String, Vec<TextField>>, texts: &[String]) -> String {
        let mut out = JsonWriter::new(Vec::new());
        out.begin_object();
        Payload::of(Some(data), fields, texts).end(&mut out);
        String::from_utf8(out.finish().unwrap()).unwrap()
    }

    #[test]
    fn texts_are_written_out_and_flows_bind() {
        let field = |key: &str, flow| TextField {
            key: key.to_owned(),
            flow,
        };
        let fields = HashMap::from([(
            "T".to_owned(),
            vec![field("what", None), field("id", Some(Flow::Ends))],
        )]);
        let texts = ["ze\"ro".to_owned(), "ab12".to_owned()];
        let data = r#"{"type":"T","what":0,"id":1,"n":3,"cause":{"stack":7}}"#;
        let written: Value = serde_json::from_str(&written(data, &fields, &texts)).unwrap();
        let expected = serde_json::json!({
            "bind_id": "0xab12", "flow_in": true, "flow_out": false,
            "args": {"data": {"type": "T", "what": "ze\"ro", "id": "ab12", "n": 3}},
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn a_payload_is_written_as_serde_json_writes_it() {
        let payloads = [
            r#"{"z":1,"a":"x","m":null,"a":true}"#,
            r#"{ "n" : [1.50, -0, 1e2, {"b":1,"a":2}], "t":"\u00e9\/\n", "\u0061\n":0.10 }"#,
            r#"{"a":18446744073709551615,"b":-9223372036854775808,"c":123456789012345678901}"#,
            r#"{"a":[],"b":{},"c":"","d":-5,"e":0,"f":false}"#,
            "{}",
        ];
        for payload in payloads {
            let parsed: Map<String, Value> = serde_json::from_str(payload).unwrap();
            let expected = format!(r#"{{"args":{{"data":{}}}}}"#, Value::Object(parsed));
            assert_eq!(written(payload, &HashMap::new(), &[]), expected);
        }
        for no_payload in [r#"{"a":1e999}"#, r#"{"a":"\ud800"}"#, "[]"] {
            assert_eq!(written(no_payload, &HashMap::new(), &[]), r#"{"args":{}}"#);
        }
    }
}
