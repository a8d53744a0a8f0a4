//! Tests of the builder, of the rules of [`MarkerSchema::check`], and of the encoding in the pool.

use super::*;
use crate::codec;

fn full() -> MarkerSchema {
    MarkerSchema::new(
        "Request",
        [Location::MarkerChart, Location::TimelineOverview],
    )
    .all_labels("{marker.data.url}")
    .key_format("url", Format::Url)
    .key_label_format("size", "Size", Format::Bytes)
    .field(
        MarkerField::new("color", Format::String)
            .hidden()
            .not_searchable(),
    )
    .key_format(
        "rows",
        FieldFormat::table([TableColumn::new("Name", Format::String)]),
    )
    .static_label_value("Description", "One request")
    .graph("size", GraphType::LineFilled, Some(GraphColor::Teal))
    .color_field("color")
    .stack_based()
}

#[test]
fn a_schema_is_unchanged_by_its_encoding() {
    let schema = full();
    let bytes = codec::encode(&schema).unwrap();
    assert_eq!(codec::decode::<MarkerSchema>(&bytes).unwrap(), schema);
}

#[test]
fn a_complete_schema_passes() {
    assert_eq!(full().check(), Ok(()));
    assert_eq!(full().fields().count(), 4);
    assert_eq!(
        full()
            .field_named("size")
            .and_then(|field| field.label.as_deref()),
        Some("Size")
    );
}

#[test]
fn names_that_viewers_treat_specially_are_refused() {
    assert_eq!(
        MarkerSchema::in_chart_and_table("").check(),
        Err(SchemaError::NoName)
    );
    for name in RESERVED_NAMES {
        let schema = MarkerSchema::in_chart_and_table(name);
        assert_eq!(
            schema.check(),
            Err(SchemaError::ReservedName(name.to_owned()))
        );
    }
}

#[test]
fn names_of_the_profilers_own_types_are_refused() {
    for name in ["Span", "Span of a library", "SlowRun", "LogRecord 12"] {
        let schema = MarkerSchema::in_chart_and_table(name);
        let refused = SchemaError::ReservedName(name.to_owned());
        assert_eq!(schema.check(), Err(refused));
        assert_eq!(schema.check_of_profiler(), Ok(()));
    }
}

#[test]
fn keys_are_unique_and_not_the_profilers_own() {
    let twice = full().key_format("url", Format::Integer);
    assert_eq!(twice.check(), Err(SchemaError::DuplicateKey("url".into())));
    let reserved = full().key_format("type", Format::String);
    assert_eq!(
        reserved.check(),
        Err(SchemaError::ReservedKey("type".into()))
    );
}

#[test]
fn graphs_and_colours_refer_to_fields() {
    let graph = full().graph("nothing", GraphType::Bar, None);
    assert_eq!(
        graph.check(),
        Err(SchemaError::UnknownKey("nothing".into()))
    );
    assert_eq!(
        full().color_field("gone").check(),
        Err(SchemaError::UnknownKey("gone".into()))
    );
}

#[test]
fn hexadecimal_is_written_as_integer_in_older_versions() {
    assert_eq!(Format::Hexadecimal.name(31), "integer");
    assert_eq!(Format::Hexadecimal.name(35), "hexadecimal");
}

#[test]
fn colours_are_found_by_their_names() {
    for color in CategoryColor::ALL {
        assert_eq!(CategoryColor::from_name(color.name()), Some(*color));
    }
    for color in GraphColor::ALL {
        assert_eq!(GraphColor::from_name(color.name()), Some(*color));
    }
    assert_eq!(CategoryColor::from_name("teal"), None);
}
