//! Tests of the schemas that are derived.

use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use profiler_core::marker::{MarkerValue, ProfilerMarker};
use serde::Serialize;

#[derive(Serialize, ProfilerMarker)]
#[marker_type(name = "File", label = "{marker.data.path}")]
struct FileMarker<'a> {
    #[field(format = "file-path", label = "Path")]
    path: &'a str,
    #[field(format = "bytes", label = "Size", search = false)]
    bytes: u64,
    #[field(hidden, search)]
    kind: Option<&'a str>,
}

#[derive(Serialize, ProfilerMarker)]
struct Plain<T: Serialize + MarkerValue> {
    value: T,
    #[serde(rename = "seconds")]
    took: std::time::Duration,
    #[serde(skip)]
    #[expect(dead_code)]
    ignored: Vec<u8>,
    r#type_: bool,
}

#[test]
fn attributes_of_fields_make_the_schema() {
    let written = MarkerSchema::in_chart_and_table("File")
        .all_labels("{marker.data.path}")
        .key_label_format("path", "Path", Format::FilePath)
        .field(
            MarkerField::new("bytes", Format::Bytes)
                .label("Size")
                .not_searchable(),
        )
        .field(MarkerField::new("kind", Format::String).hidden());
    assert_eq!(FileMarker::schema(), written);
    assert_eq!(FileMarker::TYPE_NAME, "File");
    assert_eq!(written.check(), Ok(()));
}

#[test]
fn without_attributes_types_and_names_of_fields_decide() {
    let schema = Plain::<u64>::schema();
    assert_eq!(schema.name, "Plain");
    let fields: Vec<_> = schema
        .fields()
        .map(|field| (field.key.as_str(), field.format.clone()))
        .collect();
    let expected = [
        ("value", Format::Integer.into()),
        ("seconds", Format::Duration.into()),
        ("type_", Format::String.into()),
    ];
    assert_eq!(fields, expected);
    let label = "{marker.name} — value={marker.data.value}, seconds={marker.data.seconds}, type_={marker.data.type_}";
    assert_eq!(schema.table_label.as_deref(), Some(label));
}
