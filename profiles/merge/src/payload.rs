//! Changes the payload of a marker: numbers of texts and stacks, times, flows, processes, its type.
//!
//! Called by [`super::threads`] for each payload, with its text. A payload in which nothing depends
//! on its profile is copied as it is. Invariant: fields keep their order, and fields that are not
//! changed keep their text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;

use profiler_json::{JsonWriter, StringTable};
use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::naming::HostNames;
use super::rewrite::Num;
use super::schemas::{FieldKind, PayloadPlan, PayloadPlans};
use super::tables::RowNumbers;

/// What changes in the markers of one input.
#[derive(Debug)]
pub(super) struct PayloadChanges<'a> {
    pub(super) plans: &'a PayloadPlans,
    pub(super) names: &'a HostNames,
    pub(super) numbers: &'a RowNumbers,
    pub(super) offset_ns: i64,
    /// The new numbers of flows, by the new number of their texts.
    pub(super) flows: HashMap<u32, u32>,
}

/// The beginning of a payload in the profiles of this profiler.
const TYPE_FIRST: &str = r#"{"type":""#;

#[derive(Deserialize)]
struct Typed<'p> {
    #[serde(rename = "type", borrow, default)]
    name: Cow<'p, str>,
}

/// The type of a payload.
fn type_of(payload: &str) -> Cow<'_, str> {
    let first = payload.strip_prefix(TYPE_FIRST);
    let first = first.and_then(|rest| rest.split_once('"'));
    match first.filter(|(name, _)| !name.contains('\\')) {
        Some((name, _)) => name.into(),
        None => {
            serde_json::from_str(payload).map_or(Cow::Borrowed(""), |typed: Typed<'_>| typed.name)
        }
    }
}

impl PayloadChanges<'_> {
    /// Writes a payload.
    ///
    /// # Errors
    /// It refers to a text or a stack that does not exist.
    pub(super) fn write<W: Write>(
        &mut self,
        payload: &str,
        strings: &mut StringTable,
        out: &mut JsonWriter<W>,
    ) -> Result<(), String> {
        let plans = self.plans;
        let plan = plans.get(&*type_of(payload));
        let is_changed = plan.is_some() || payload.contains(r#""cause":"#);
        if !is_changed || !payload.starts_with('{') {
            out.raw(payload);
            return Ok(());
        }
        let fields = Fields {
            changes: self,
            plan,
            strings,
            out,
        };
        let mut from = serde_json::Deserializer::from_str(payload);
        from.deserialize_map(fields)
            .map_err(|error| error.to_string())
    }

    fn text(&self, number: Num) -> Result<u32, String> {
        match number.remapped(&self.numbers.strings, "text")? {
            Num::Unsigned(number) => u32::try_from(number).map_err(|error| error.to_string()),
            _ => Err("a field refers to no text".to_owned()),
        }
    }

    /// The number of the text of a flow.
    fn flow(&mut self, text: u32, strings: &mut StringTable) -> u32 {
        if let Some(known) = self.flows.get(&text) {
            return *known;
        }
        let id = strings.text(text).unwrap_or_default();
        let new = self.names.flow(id).into_owned();
        let new = strings.intern(&new).get();
        self.flows.insert(text, new);
        new
    }
}

/// Receives the fields of a payload.
struct Fields<'c, 'a, W: Write> {
    changes: &'c mut PayloadChanges<'a>,
    plan: Option<&'c PayloadPlan>,
    strings: &'c mut StringTable,
    out: &'c mut JsonWriter<W>,
}

impl<W: Write> Fields<'_, '_, W> {
    fn field(&mut self, key: &str, value: &str) -> Result<(), String> {
        self.out.key(key);
        let renamed = self.plan.and_then(|plan| plan.renamed.as_deref());
        if let Some(renamed) = renamed.filter(|_| key == "type") {
            self.out.string(renamed);
            return Ok(());
        }
        let kind = self.plan.and_then(|plan| plan.kind(key));
        let number = Num::parse(value);
        match (kind, number) {
            (Some(FieldKind::Text), Some(number)) => {
                self.out.u64(u64::from(self.changes.text(number)?));
            }
            (Some(FieldKind::Flow), Some(number)) => {
                let text = self.changes.text(number)?;
                let flow = self.changes.flow(text, self.strings);
                self.out.u64(u64::from(flow));
            }
            (Some(FieldKind::Time), Some(number)) => {
                number.moved(self.changes.offset_ns).write(self.out);
            }
            (Some(FieldKind::Process), _) => self.process(value),
            _ if key == "cause" => self.cause(value)?,
            _ => self.out.raw(value),
        }
        Ok(())
    }

    /// The number of a process: a number, or a text.
    fn process(&mut self, value: &str) {
        let text: Option<String> = serde_json::from_str(value).ok();
        let old = text.as_deref().unwrap_or(value);
        match self.changes.names.process_id(old) {
            Cow::Borrowed(_) => self.out.raw(value),
            Cow::Owned(new) => self.out.string(&new),
        }
    }

    /// The stack of a marker.
    fn cause(&mut self, value: &str) -> Result<(), String> {
        if !value.starts_with('{') {
            self.out.raw(value);
            return Ok(());
        }
        let cause = Cause {
            changes: self.changes,
            out: self.out,
        };
        let mut from = serde_json::Deserializer::from_str(value);
        from.deserialize_map(cause)
            .map_err(|error| error.to_string())
    }
}

impl<'de, W: Write> Visitor<'de> for Fields<'_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a payload")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.out.begin_object();
        while let Some((key, value)) = fields.next_entry::<Cow<'_, str>, &RawValue>()? {
            self.field(&key, value.get()).map_err(A::Error::custom)?;
        }
        self.out.end_object();
        Ok(())
    }
}

/// Receives the time and the stack of a marker.
struct Cause<'c, 'a, W: Write> {
    changes: &'c PayloadChanges<'a>,
    out: &'c mut JsonWriter<W>,
}

impl<'de, W: Write> Visitor<'de> for Cause<'_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stack of a marker")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.out.begin_object();
        while let Some((key, value)) = fields.next_entry::<Cow<'_, str>, &RawValue>()? {
            self.out.key(&key);
            match (&*key, Num::parse(value.get())) {
                ("time", Some(number)) => number.moved(self.changes.offset_ns).write(self.out),
                ("stack", Some(number)) => {
                    let stack = number.remapped(&self.changes.numbers.stacks, "stack");
                    stack.map_err(A::Error::custom)?.write(self.out);
                }
                _ => self.out.raw(value.get()),
            }
        }
        self.out.end_object();
        Ok(())
    }
}
