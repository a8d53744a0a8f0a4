//! The type of the starts and ends of spans, and the names of similar types.
//!
//! Used by `span` and `fields`, and by everything that pairs starts with ends.

use serde::Serialize;

use super::ProfilerMarker;
use crate::schema::{Format, MarkerField, MarkerSchema};

/// Start or end of a span.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpanMark<'a> {
    /// Its number in this process: the same in its start, its end, and its details.
    pub span: u64,
    /// A text beside its name; only in the start.
    pub name: Option<&'a str>,
    /// The group of everything that its thread records while it is open; only in the start.
    pub group: Option<&'a str>,
}

impl SpanMark<'_> {
    /// The beginning of the names of types whose markers are numbered like these and have further
    /// fields.
    pub const TYPE_PREFIX: &'static str = "Span ";

    /// Whether markers of this type are the starts and ends of numbered spans. The number is the
    /// field `span`.
    pub fn is_type(type_name: &str) -> bool {
        type_name == Self::TYPE_NAME || type_name.starts_with(Self::TYPE_PREFIX)
    }
}

impl ProfilerMarker for SpanMark<'_> {
    const TYPE_NAME: &'static str = "Span";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .tooltip_label("{marker.name}")
            .chart_label("{marker.name} {marker.data.name}")
            .table_label("{marker.name} {marker.data.name}")
            .field(
                MarkerField::new("span", Format::Integer)
                    .label("Span")
                    .not_searchable(),
            )
            .key_label_format("name", "Details", Format::String)
            .key_label_format("group", "Group", Format::UniqueString)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_types_of_spans_are_types_of_spans() {
        assert!(SpanMark::is_type("Span") && SpanMark::is_type("Span request"));
        assert!(!SpanMark::is_type("SpanDetail") && !SpanMark::is_type("Text"));
    }
}
