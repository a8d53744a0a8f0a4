//! Decodes an entry of a pool into the form that an observer receives.
//!
//! Called by the reader thread; one [`Names`] per process caches its call sites. Invariant: the
//! decoded size of a payload is bounded for any bytes; parts beyond the bound are left out, and the
//! result is marked as cut.

use std::collections::HashMap;
use std::sync::Arc;

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::MarkerEntry;
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::Definitions;
use profiler_core::marker::schema::{FieldFormat, Format};
use profiler_core::marker::{ProfilerMarker, SpanDetail, SpanMark, Text};

use super::event::{Field, Flow, SharedText, Value};

/// Limit on the bytes of a payload.
const MAX_BYTES: usize = 16 << 10;
/// Limit on the values of a payload, including those in lists.
const MAX_VALUES: usize = 256;
/// Limit on the bytes of a name, and of each key of a payload.
const MAX_NAME_BYTES: usize = 1024;
/// Limit on the cached call sites per process; entries may name any number of them.
const MAX_SITES: usize = 1 << 14;
/// Limit on the bytes of the cached call sites.
const MAX_SITE_BYTES: usize = 4 << 20;
/// The key of a field that assigns its marker to a group.
const GROUP: &str = "group";

/// How an observer treats the markers of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An ordinary marker.
    Plain,
    /// A marker whose only field is a text, which distinguishes timers of the same name.
    Text,
    /// Start or end of a numbered span.
    Span,
    /// A detail of a numbered span.
    Detail,
}

/// The properties that all markers of a call site share.
#[derive(Clone, Debug)]
pub(super) struct SiteInfo {
    pub(super) name: SharedText,
    pub(super) category: SharedText,
    pub(super) role: Role,
    fields: Vec<FieldInfo>,
    /// The name was longer than the limit.
    is_cut: bool,
}

/// A field of the payload.
#[derive(Clone, Debug)]
struct FieldInfo {
    key: SharedText,
    format: &'static str,
    /// `None` if the field is no flow identifier; otherwise whether the marker ends the flow.
    flow: Option<bool>,
}

/// The cached call sites of one process.
#[derive(Debug, Default)]
pub(super) struct Names {
    sites: HashMap<DefinitionId, Arc<SiteInfo>>,
    bytes: usize,
}

impl Names {
    /// Returns a call site, from the cache if it is known.
    pub(super) fn site(&mut self, id: DefinitionId, definitions: &Definitions) -> Arc<SiteInfo> {
        if let Some(known) = self.sites.get(&id) {
            return Arc::clone(known);
        }
        let info = Arc::new(SiteInfo::new(id, definitions));
        let bytes = self.bytes.saturating_add(info.weight());
        let has_room = self.sites.len() < MAX_SITES && bytes <= MAX_SITE_BYTES;
        if has_room && definitions.site(id).is_some() {
            self.sites.insert(id, Arc::clone(&info));
            self.bytes = bytes;
        }
        info
    }
}

impl SiteInfo {
    fn new(id: DefinitionId, definitions: &Definitions) -> Self {
        let site = definitions.site(id);
        let category = site.and_then(|site| definitions.category(site.category));
        let marker_type = site.and_then(|site| definitions.marker_type(site.marker_type));
        let field = |key: &String| {
            let format = marker_type
                .and_then(|known| known.schema.field_named(key))
                .map(|field| &field.format);
            FieldInfo::new(key, format)
        };
        let name = site.map_or("", |site| site.name.as_str());
        let keys = marker_type
            .map(|known| known.keys.as_slice())
            .unwrap_or_default();
        Self {
            name: short(name),
            category: short(category.map_or("Other", |category| category.name.as_str())),
            role: marker_type.map_or(Role::Plain, |known| Role::of(&known.schema.name)),
            // Further values are not passed on.
            fields: keys.iter().take(MAX_VALUES).map(field).collect(),
            is_cut: name.len() > MAX_NAME_BYTES,
        }
    }

    /// Approximate size in bytes.
    fn weight(&self) -> usize {
        let fields: usize = self
            .fields
            .iter()
            .map(|field| size_of::<FieldInfo>() + field.key.len())
            .sum();
        size_of::<Self>() + self.name.len() + self.category.len() + fields
    }

    /// Returns the name of a marker, and whether it was shortened.
    pub(super) fn name_of(&self, marker: &MarkerEntry<'_>) -> (SharedText, bool) {
        match marker.name {
            Some(name) => (short(name), name.len() > MAX_NAME_BYTES),
            None => (self.name.clone(), self.is_cut),
        }
    }

    /// Whether its markers name their group.
    pub(super) fn names_group(&self) -> bool {
        self.role != Role::Span && self.fields.iter().any(|field| *field.key == *GROUP)
    }
}

impl Role {
    fn of(type_name: &str) -> Self {
        match type_name {
            Text::TYPE_NAME => Self::Text,
            name if SpanMark::is_type(name) => Self::Span,
            SpanDetail::TYPE_NAME => Self::Detail,
            _ => Self::Plain,
        }
    }
}

impl FieldInfo {
    fn new(key: &str, format: Option<&FieldFormat>) -> Self {
        let (format, flow) = match format {
            Some(FieldFormat::Value(format @ Format::FlowId)) => {
                (format.name(u32::MAX), Some(false))
            }
            Some(FieldFormat::Value(format @ Format::TerminatingFlowId)) => {
                (format.name(u32::MAX), Some(true))
            }
            Some(FieldFormat::Value(format)) => (format.name(u32::MAX), None),
            Some(FieldFormat::Table(_)) => ("table", None),
            None => ("string", None),
        };
        Self {
            key: short(key),
            format,
            flow,
        }
    }
}

/// A decoded marker.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct DecodedMarker {
    pub name: SharedText,
    pub category: SharedText,
    pub group: Option<SharedText>,
    pub fields: Vec<Field>,
    pub flows: Vec<Flow>,
    /// Parts of the marker are left out.
    pub cut: bool,
}

/// Decodes the markers of a process as an observer receives them. Public for the fuzzer, which
/// checks that decoding never panics.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct MarkerDecoder(Names);

impl MarkerDecoder {
    /// Decodes one marker.
    pub fn decode(&mut self, marker: &MarkerEntry<'_>, definitions: &Definitions) -> DecodedMarker {
        let site = self.0.site(marker.site, definitions);
        let (name, is_cut) = site.name_of(marker);
        let Payload {
            fields,
            flows,
            group,
            cut,
        } = Payload::of(marker, &site).cut_if(is_cut);
        DecodedMarker {
            name,
            category: site.category.clone(),
            group,
            fields,
            flows,
            cut,
        }
    }
}

/// A decoded payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub(super) fields: Vec<Field>,
    pub(super) flows: Vec<Flow>,
    /// The group that the payload names.
    pub(super) group: Option<SharedText>,
    pub(super) cut: bool,
}

impl Payload {
    /// Decodes the payload of a marker of this site.
    pub(super) fn of(marker: &MarkerEntry<'_>, site: &SiteInfo) -> Self {
        let mut payload = Self::default();
        let mut room = TextBudget {
            bytes: MAX_BYTES,
            values: MAX_VALUES,
        };
        let values = PayloadReader::new(marker.payload).map_while(Result::ok);
        for (field, value) in site.fields.iter().zip(values) {
            let value = room.value(value);
            payload.flows.extend(field.flow.and_then(|ends| {
                Some(Flow {
                    id: flow_id(&value)?,
                    ends,
                })
            }));
            if let (GROUP, Value::Text(name)) = (&*field.key, &value) {
                payload.group = Some(short(name));
            }
            if value != Value::None {
                payload.fields.push(Field {
                    key: field.key.clone(),
                    format: field.format,
                    value,
                });
            }
        }
        payload.cut = room.bytes == 0 || room.values == 0;
        payload
    }

    /// The value of a field.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.fields
            .iter()
            .find(|field| *field.key == *key)
            .map(|field| &field.value)
    }

    /// The number of the span that the marker belongs to.
    pub(super) fn span(&self) -> Option<u64> {
        match self.value("span") {
            Some(Value::U64(span)) => Some(*span),
            _ => None,
        }
    }

    /// The text of a field.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Marks the payload as cut if another part of its marker is cut.
    pub(super) const fn cut_if(mut self, is_cut: bool) -> Self {
        self.cut |= is_cut;
        self
    }

    /// Removes the fields that only pair a start with its end or name the group.
    pub(super) fn without_number(mut self) -> Self {
        self.fields
            .retain(|field| *field.key != *"span" && *field.key != *GROUP);
        self
    }
}

/// Formats a flow identifier as in the profile: texts unchanged, numbers as the texts of flows.
fn flow_id(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::U64(number) => Some(format!("{number:016x}")),
        Value::I64(number) => Some(format!("{number:016x}")),
        _ => None,
    }
}

/// The bytes and values that a payload may still hold.
struct TextBudget {
    bytes: usize,
    values: usize,
}

impl TextBudget {
    fn value(&mut self, value: FieldValue<'_>) -> Value {
        if self.values == 0 {
            return Value::None;
        }
        self.values -= 1;
        match value {
            FieldValue::None => Value::None,
            FieldValue::Bool(flag) => Value::Bool(flag),
            FieldValue::U64(number) => Value::U64(number),
            FieldValue::I64(number) => Value::I64(number),
            FieldValue::F64(number) => Value::F64(number),
            FieldValue::Str(text) => Value::Text(self.text(text)),
            FieldValue::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    if self.values == 0 {
                        break;
                    }
                    list.push(self.value(item));
                }
                Value::List(list)
            }
        }
    }

    fn text(&mut self, text: &str) -> String {
        let start = start_of(text, self.bytes);
        self.bytes = if start.len() < text.len() {
            0
        } else {
            self.bytes - start.len()
        };
        start.to_owned()
    }
}

/// Shortens a name to the limit for observers.
fn short(name: &str) -> SharedText {
    start_of(name, MAX_NAME_BYTES).into()
}

/// The longest prefix of a text with at most `most` bytes, cut between characters.
fn start_of(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
