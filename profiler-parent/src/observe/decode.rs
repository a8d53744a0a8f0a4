//! From an entry of a pool to what an observer gets of it.
//!
//! One [`Names`] per process remembers what its call sites are. Invariant: what it makes of a payload is bounded,
//! whatever the bytes say; the rest is left out, and that is said.

use std::collections::HashMap;
use std::sync::Arc;

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::MarkerEntry;
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::Definitions;
use profiler_core::marker::schema::{FieldFormat, Format};
use profiler_core::marker::{ProfilerMarker, SpanDetail, SpanMark, Text};

use super::event::{Field, Flow, SharedText, Value};

/// Bytes of a payload that an observer gets.
const MAX_BYTES: usize = 16 << 10;
/// Values of a payload that an observer gets, also those in lists.
const MAX_VALUES: usize = 256;
/// Bytes of a name that an observer gets, and of each of a payload's keys.
const MAX_NAME_BYTES: usize = 1024;
/// Call sites that are remembered per process; entries may name any number.
const MOST_SITES: usize = 1 << 14;
/// Bytes of their texts that are remembered.
const MOST_SITE_BYTES: usize = 4 << 20;
/// The key of a field that puts its marker into a group.
const GROUP: &str = "group";

/// What markers of a type are to an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A marker like any other.
    Plain,
    /// Its only field is a text, which tells timers of one name apart.
    Text,
    /// Start or end of a numbered span.
    Span,
    /// Belongs to a numbered span.
    Detail,
}

/// A call site.
#[derive(Clone, Debug)]
pub(super) struct SiteInfo {
    pub(super) name: SharedText,
    pub(super) category: SharedText,
    pub(super) role: Role,
    fields: Vec<FieldInfo>,
    /// Its name was too long.
    is_cut: bool,
}

#[derive(Clone, Debug)]
struct FieldInfo {
    key: SharedText,
    format: &'static str,
    /// Whether it joins markers of a flow, and whether that ends with it.
    flow: Option<bool>,
}

/// The call sites of one process.
#[derive(Debug, Default)]
pub(super) struct Names {
    sites: HashMap<DefinitionId, Arc<SiteInfo>>,
    bytes: usize,
}

impl Names {
    /// What markers of a site have in common.
    pub(super) fn site(&mut self, id: DefinitionId, definitions: &Definitions) -> Arc<SiteInfo> {
        if let Some(known) = self.sites.get(&id) {
            return Arc::clone(known);
        }
        let info = Arc::new(SiteInfo::new(id, definitions));
        let bytes = self.bytes.saturating_add(info.weight());
        let has_room = self.sites.len() < MOST_SITES && bytes <= MOST_SITE_BYTES;
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
            let format =
                marker_type.and_then(|known| known.schema.field_named(key)).map(|field| &field.format);
            FieldInfo::new(key, format)
        };
        let name = site.map_or("", |site| site.name.as_str());
        let keys = marker_type.map(|known| known.keys.as_slice()).unwrap_or_default();
        Self {
            name: short(name),
            category: short(category.map_or("Other", |category| category.name.as_str())),
            role: marker_type.map_or(Role::Plain, |known| Role::of(&known.schema.name)),
            // No more values than that are passed on.
            fields: keys.iter().take(MAX_VALUES).map(field).collect(),
            is_cut: name.len() > MAX_NAME_BYTES,
        }
    }

    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let fields: usize = self.fields.iter().map(|field| size_of::<FieldInfo>() + field.key.len()).sum();
        size_of::<Self>() + self.name.len() + self.category.len() + fields
    }

    /// How a marker of it is called, and whether that is not all of the name.
    pub(super) fn name_of(&self, marker: &MarkerEntry<'_>) -> (SharedText, bool) {
        match marker.name {
            Some(name) => (short(name), name.len() > MAX_NAME_BYTES),
            None => (self.name.clone(), self.is_cut),
        }
    }

    /// Whether its markers say to which group they belong.
    pub(super) fn names_group(&self) -> bool {
        self.role != Role::Span && self.fields.iter().any(|field| *field.key == *GROUP)
    }
}

impl Role {
    fn of(type_name: &str) -> Self {
        match type_name {
            Text::TYPE_NAME => Self::Text,
            SpanMark::TYPE_NAME => Self::Span,
            SpanDetail::TYPE_NAME => Self::Detail,
            _ => Self::Plain,
        }
    }
}

impl FieldInfo {
    fn new(key: &str, format: Option<&FieldFormat>) -> Self {
        let (format, flow) = match format {
            Some(FieldFormat::Value(format @ Format::FlowId)) => (format.name(u32::MAX), Some(false)),
            Some(FieldFormat::Value(format @ Format::TerminatingFlowId)) => {
                (format.name(u32::MAX), Some(true))
            }
            Some(FieldFormat::Value(format)) => (format.name(u32::MAX), None),
            Some(FieldFormat::Table(_)) => ("table", None),
            None => ("string", None),
        };
        Self { key: short(key), format, flow }
    }
}

/// What an observer gets of a marker.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct DecodedMarker {
    pub name: SharedText,
    pub category: SharedText,
    pub group: Option<SharedText>,
    pub fields: Vec<Field>,
    pub flows: Vec<Flow>,
    /// Something is left out.
    pub cut: bool,
}

/// Decodes the markers of a process as an observer gets them: for the fuzzer. Never panics, whatever
/// the bytes are.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct MarkerDecoder(Names);

impl MarkerDecoder {
    /// Decodes one marker.
    pub fn decode(&mut self, marker: &MarkerEntry<'_>, definitions: &Definitions) -> DecodedMarker {
        let site = self.0.site(marker.site, definitions);
        let (name, is_cut) = site.name_of(marker);
        let Payload { fields, flows, group, cut } = Payload::of(marker, &site).cut_if(is_cut);
        DecodedMarker { name, category: site.category.clone(), group, fields, flows, cut }
    }
}

/// A decoded payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub(super) fields: Vec<Field>,
    pub(super) flows: Vec<Flow>,
    /// The group that it names.
    pub(super) group: Option<SharedText>,
    pub(super) cut: bool,
}

impl Payload {
    /// Decodes the payload of a marker of this site.
    pub(super) fn of(marker: &MarkerEntry<'_>, site: &SiteInfo) -> Self {
        let mut payload = Self::default();
        let mut room = Room { bytes: MAX_BYTES, values: MAX_VALUES };
        let values = PayloadReader::new(marker.payload).map_while(Result::ok);
        for (field, value) in site.fields.iter().zip(values) {
            let value = room.value(value);
            payload.flows.extend(field.flow.and_then(|ends| Some(Flow { id: flow_id(&value)?, ends })));
            if let (GROUP, Value::Text(name)) = (&*field.key, &value) {
                payload.group = Some(short(name));
            }
            if value != Value::None {
                payload.fields.push(Field { key: field.key.clone(), format: field.format, value });
            }
        }
        payload.cut = room.bytes == 0 || room.values == 0;
        payload
    }

    /// A field's value.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|field| *field.key == *key).map(|field| &field.value)
    }

    /// The number of the span that it belongs to.
    pub(super) fn span(&self) -> Option<u64> {
        match self.value("span") {
            Some(Value::U64(span)) => Some(*span),
            _ => None,
        }
    }

    /// A field's text.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The same, where something else of its marker is left out too.
    pub(super) const fn cut_if(mut self, is_cut: bool) -> Self {
        self.cut |= is_cut;
        self
    }

    /// The same without what only pairs a start with its end.
    pub(super) fn without_number(mut self) -> Self {
        self.fields.retain(|field| *field.key != *"span" && *field.key != *GROUP);
        self
    }
}

/// As the profile writes flow identifiers: texts as they are, numbers in hexadecimal.
fn flow_id(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::U64(number) => Some(format!("{number:x}")),
        Value::I64(number) => Some(format!("{number:x}")),
        _ => None,
    }
}

/// What is left of the bounds of a payload.
struct Room {
    bytes: usize,
    values: usize,
}

impl Room {
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
        self.bytes = if start.len() < text.len() { 0 } else { self.bytes - start.len() };
        start.to_owned()
    }
}

/// As much of a name as an observer gets.
fn short(name: &str) -> SharedText {
    start_of(name, MAX_NAME_BYTES).into()
}

/// The first whole characters of a text, at most this many bytes.
fn start_of(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
