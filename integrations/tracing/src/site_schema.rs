//! The marker type of a call site: its name, its fields, and how viewers show them.
//!
//! Called once per call site. The name of a type contains a hash of everything that the fields
//! depend on, because the types of all processes are merged by name and two programs may differ in
//! one line. Invariants: the fields of a span are its number, its parent and the fields of its
//! metadata, those of an event are the number of its span and the fields of its metadata, both in
//! this order; no key appears twice.

use std::hash::{DefaultHasher, Hash, Hasher};

use profiler_core::marker::SpanMark;
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use tracing_core::Metadata;

/// Keys that viewers or the profile writer use for something else.
const RESERVED_KEYS: [&str; 3] = ["type", "stack", "cause"];
/// Most fields that the label of a marker shows.
const MOST_IN_LABEL: usize = 4;

/// The marker type of a call site.
pub(crate) fn schema_of(metadata: &Metadata<'static>) -> MarkerSchema {
    let mut keys: Vec<String> = own_keys(metadata).map(str::to_owned).collect();
    let own = keys.len();
    for field in metadata.fields().iter() {
        let key = unused_key(field.name(), &keys);
        keys.push(key);
    }
    let (own, fields) = keys.split_at(own);
    let label = label_of(metadata, fields);
    let mut schema = MarkerSchema::in_chart_and_table(type_name(metadata))
        .tooltip_label("{marker.name}")
        .chart_label(label.clone())
        .table_label(label);
    for key in own {
        let field = MarkerField::new(key, Format::Integer).label(own_label(key));
        schema = schema.field(field.not_searchable());
    }
    for (key, field) in fields.iter().zip(metadata.fields().iter()) {
        schema = schema.key_label_format(key, field.name(), Format::String);
    }
    schema.static_label_value("Description", description_of(metadata))
}

/// The name of a call site's markers. `tracing` names an event after its source line, which says
/// less than its target.
pub(crate) const fn is_named_after_line(name: &str) -> bool {
    matches!(name.as_bytes(), [b'e', b'v', b'e', b'n', b't', b' ', ..])
}

fn own_keys(metadata: &Metadata<'static>) -> impl Iterator<Item = &'static str> {
    let of_span = if metadata.is_span() { Some("parent") } else { None };
    std::iter::once("span").chain(of_span)
}

fn own_label(key: &str) -> &'static str {
    if key == "span" { "Span" } else { "Parent span" }
}

/// The field's name, with underscores behind it if the key is in use.
fn unused_key(name: &str, used: &[String]) -> String {
    let mut key = name.to_owned();
    while used.contains(&key) || RESERVED_KEYS.contains(&key.as_str()) {
        key.push('_');
    }
    key
}

fn type_name(metadata: &Metadata<'static>) -> String {
    let mut hasher = DefaultHasher::new();
    (metadata.target(), metadata.name(), metadata.level().as_str()).hash(&mut hasher);
    metadata
        .fields()
        .iter()
        .for_each(|field| field.name().hash(&mut hasher));
    (metadata.file(), metadata.line()).hash(&mut hasher);
    let hash = hasher.finish() & 0xff_ffff;
    if metadata.is_span() {
        format!("{}{} {hash:06x}", SpanMark::TYPE_PREFIX, metadata.name())
    } else {
        format!("Event {} {hash:06x}", metadata.target())
    }
}

fn label_of(metadata: &Metadata<'static>, keys: &[String]) -> String {
    let names = || metadata.fields().iter().map(|field| field.name());
    let mut label = String::new();
    if metadata.is_span() || !names().any(|name| name == "message") {
        label.push_str("{marker.name}");
    }
    for (name, key) in names().zip(keys).take(MOST_IN_LABEL) {
        if name == "message" {
            label.push_str(&format!(" {{marker.data.{key}}}"));
        } else {
            label.push_str(&format!(" {name}={{marker.data.{key}}}"));
        }
    }
    label.trim_start().to_owned()
}

fn description_of(metadata: &Metadata<'static>) -> String {
    let (level, target) = (metadata.level(), metadata.target());
    match (metadata.file(), metadata.line()) {
        (Some(file), Some(line)) => format!("{level} {target}, {file}:{line}"),
        _ => format!("{level} {target}"),
    }
}
