//! The marker type of a call site: its name, its fields, and how viewers show them.
//!
//! Called once per call site. The name of a type contains a hash of everything that the fields
//! depend on, because the types of all processes are merged by name and two programs may differ in
//! one line. Invariants: the fields of a span are its number, its parent and the fields of its
//! metadata, those of an event are the number of its span and the fields of its metadata, both in
//! this order; no key appears twice; keys consist of letters, digits and underscores.

use std::hash::{DefaultHasher, Hash, Hasher};

use profiler_core::marker::SpanMark;
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use tracing_core::Metadata;

/// Keys that viewers or the profile writer use for something else.
const RESERVED_KEYS: [&str; 3] = ["type", "stack", "cause"];
/// Most fields that the label of a marker shows.
const MAX_IN_LABEL: usize = 4;

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

/// Whether `tracing` has named an event after its source line, which says less than its target.
pub(crate) fn is_named_after_line(metadata: &Metadata<'static>) -> bool {
    metadata.is_event() && metadata.name().starts_with("event ")
}

fn own_keys(metadata: &Metadata<'static>) -> impl Iterator<Item = &'static str> {
    let of_span = if metadata.is_span() {
        Some("parent")
    } else {
        None
    };
    std::iter::once("span").chain(of_span)
}

fn own_label(key: &str) -> &'static str {
    if key == "span" { "Span" } else { "Parent span" }
}

/// The key of a field: its name, with an underscore for each character that cannot be part of a
/// viewer's label, such as the dot in `http.method`, and further ones behind it if the key is in
/// use.
fn unused_key(name: &str, used: &[String]) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let mut key: String = name.chars().map(plain).collect();
    if key.is_empty() {
        key.push('_');
    }
    while used.contains(&key) || RESERVED_KEYS.contains(&key.as_str()) {
        key.push('_');
    }
    key
}

fn type_name(metadata: &Metadata<'static>) -> String {
    let mut hasher = DefaultHasher::new();
    (
        metadata.target(),
        metadata.name(),
        metadata.level().as_str(),
    )
        .hash(&mut hasher);
    metadata
        .fields()
        .iter()
        .for_each(|field| field.name().hash(&mut hasher));
    (metadata.file(), metadata.line()).hash(&mut hasher);
    let hash = hasher.finish() & 0xffff_ffff_ffff;
    if metadata.is_span() {
        format!("{}{} {hash:012x}", SpanMark::TYPE_PREFIX, metadata.name())
    } else {
        format!("Event {} {hash:012x}", metadata.target())
    }
}

fn label_of(metadata: &Metadata<'static>, keys: &[String]) -> String {
    let names = || metadata.fields().iter().map(|field| field.name());
    let mut label = String::new();
    if metadata.is_span() || !names().any(|name| name == "message") {
        label.push_str("{marker.name}");
    }
    for (name, key) in names().zip(keys).take(MAX_IN_LABEL) {
        if name == "message" {
            label.push_str(&format!(" {{marker.data.{key}}}"));
        } else {
            // Braces in a label begin and end the name of a field.
            let name = name.replace(['{', '}'], "_");
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

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;
    use tracing::{Level, span};

    use super::*;

    fn keys(schema: &MarkerSchema) -> Vec<&str> {
        schema.fields().map(|field| field.key.as_str()).collect()
    }

    /// The schema of the call site that makes the span.
    fn schema(span: impl FnOnce() -> tracing::Span) -> MarkerSchema {
        let span = with_default(tracing_subscriber::registry(), span);
        schema_of(span.metadata().expect("the registry wants all spans"))
    }

    #[test]
    fn every_key_is_unique_and_can_be_part_of_a_label() {
        let schema = schema(|| {
            span!(
                Level::INFO,
                "odd",
                span = 1,
                r#type = 2,
                http.method = 3,
                http_method = 4
            )
        });
        let expected = [
            "span",
            "parent",
            "span_",
            "type_",
            "http_method",
            "http_method_",
        ];
        assert_eq!(keys(&schema), expected);
        assert_eq!(schema.check_of_profiler(), Ok(()));
        let label = schema.chart_label.as_deref();
        assert!(label.is_some_and(|label| label.contains("http.method={marker.data.http_method}")));
    }

    #[test]
    fn call_sites_that_differ_have_types_that_differ() {
        let names = [
            schema(|| span!(Level::INFO, "same", a = 1)).name,
            schema(|| span!(Level::INFO, "same", b = 1)).name,
            schema(|| span!(Level::INFO, "same", a = 1)).name,
        ];
        assert!(
            names.iter().all(|name| SpanMark::is_type(name)),
            "{names:?}"
        );
        assert!(names[0] != names[1] && names[0] != names[2]);
    }
}
