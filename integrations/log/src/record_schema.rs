//! The marker types of records: their fields, and how viewers show them.
//!
//! Records without key-values have one type, [`TYPE_NAME`]. Records with key-values have one type
//! for each sequence of keys, whose name contains a hash of the keys, because the types of all
//! processes are merged by name. Invariants: the fields are [`OWN_FIELDS`], then the key-values in
//! their order; no key appears twice; keys consist of letters, digits and underscores.

use std::hash::{DefaultHasher, Hash, Hasher};

use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};

/// The type of records without key-values.
pub(crate) const TYPE_NAME: &str = "LogRecord";
/// The fields of each record: keys, labels and formats.
pub(crate) const OWN_FIELDS: [(&str, &str, Format); 9] = [
    ("level", "Level", Format::UniqueString),
    ("message", "Message", Format::SanitizedString),
    ("target", "Target", Format::UniqueString),
    ("module", "Module", Format::UniqueString),
    ("file", "File", Format::UniqueString),
    ("line", "Line", Format::Integer),
    ("values", "Key-values", Format::SanitizedString),
    ("left_out", "Key-values left out", Format::Integer),
    (COLOR_KEY, "Colour", Format::UniqueString),
];
/// The field whose value is the name of the marker's colour.
const COLOR_KEY: &str = "color";
/// Keys that viewers or the profile writer use for something else.
const RESERVED_KEYS: [&str; 3] = ["type", "stack", "cause"];
/// Most key-values that the label of a marker shows.
const MAX_IN_LABEL: usize = 4;

/// The marker type of records with these keys.
pub(crate) fn schema_of(names: &[Box<str>]) -> MarkerSchema {
    let mut keys: Vec<String> = OWN_FIELDS.map(|(key, ..)| key.to_owned()).to_vec();
    for name in names {
        let key = unused_key(name, &keys);
        keys.push(key);
    }
    let of_values = keys.get(OWN_FIELDS.len()..).unwrap_or_default();
    let label = label_of(names, of_values);
    let mut schema = MarkerSchema::in_chart_and_table(type_name(names))
        .tooltip_label("{marker.name}")
        .chart_label(label.clone())
        .table_label(label)
        .color_field(COLOR_KEY);
    for (key, label, format) in OWN_FIELDS {
        let field = MarkerField::new(key, format).label(label);
        schema = schema.field(if key == COLOR_KEY {
            field.hidden()
        } else {
            field
        });
    }
    for (key, name) in of_values.iter().zip(names) {
        schema = schema.key_label_format(key, &**name, Format::SanitizedString);
    }
    schema
}

/// The key of a field: its name, with an underscore for each character that cannot be part of a
/// viewer's label, and further ones behind it if the key is in use.
fn unused_key(name: &str, used: &[String]) -> String {
    let plain = |letter: char| {
        if letter.is_alphanumeric() {
            letter
        } else {
            '_'
        }
    };
    let mut key: String = name.chars().map(plain).collect();
    while key.is_empty() || used.contains(&key) || RESERVED_KEYS.contains(&key.as_str()) {
        key.push('_');
    }
    key
}

fn type_name(names: &[Box<str>]) -> String {
    if names.is_empty() {
        return TYPE_NAME.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    names.hash(&mut hasher);
    format!("{TYPE_NAME} {:06x}", hasher.finish() & 0xffff_ffff_ffff)
}

fn label_of(names: &[Box<str>], keys: &[String]) -> String {
    let mut label = "{marker.data.level} {marker.data.message}".to_owned();
    for (name, key) in names.iter().zip(keys).take(MAX_IN_LABEL) {
        label.push_str(&format!(" {name}={{marker.data.{key}}}"));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(names: &[&str]) -> MarkerSchema {
        let names: Vec<Box<str>> = names.iter().map(|name| Box::from(*name)).collect();
        schema_of(&names)
    }

    #[test]
    fn every_key_is_unique_and_can_be_part_of_a_label() {
        let schema = schema(&["level", "http.method", "http_method", "type", "", "a}b"]);
        assert_eq!(schema.check_of_profiler(), Ok(()));
        let keys: Vec<_> = schema.fields().map(|field| field.key.as_str()).collect();
        let expected = ["level_", "http_method", "http_method_", "type_", "_", "a_b"];
        assert_eq!(keys[OWN_FIELDS.len()..], expected);
    }

    #[test]
    fn types_differ_by_the_keys_and_their_order() {
        let names = [&["a", "b"][..], &["b", "a"], &["a"], &[]].map(|names| schema(names).name);
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name}");
        }
        assert_eq!(names[3], TYPE_NAME);
    }
}
