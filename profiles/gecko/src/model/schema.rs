//! Marker schemas: one element each of `meta.markerSchema`.
//!
//! Called by [`super::meta`]. Names that viewers reserve get an underscore, here and in the rows
//! ([`super::marker_plans`]). Values that equal the viewer's defaults are left out.

use std::io::Write;

use super::marker_plans::{safe_key, safe_type};
use profiler_core::marker::schema::{
    FieldFormat, Format, MarkerField, MarkerGraph, MarkerSchema, SchemaRow, TableColumn,
};
use profiler_json::GECKO_VERSION;
use profiler_json::JsonWriter;

/// Writes one marker schema as the Gecko format has it: rows in order.
pub fn write_schema<W: Write>(schema: &MarkerSchema, out: &mut JsonWriter<W>) {
    write(schema, out, |out| {
        out.entry_list("data", &schema.rows, write_row)
    });
}

/// Writes one marker schema as the processed format has it: fields, and one text that describes
/// them.
pub(super) fn write_processed_schema<W: Write>(schema: &MarkerSchema, out: &mut JsonWriter<W>) {
    write(schema, out, |out| {
        let fields = schema
            .rows
            .iter()
            .filter(|row| matches!(row, SchemaRow::Field(_)));
        out.entry_list("fields", fields, write_row);
        let texts = || schema.rows.iter().filter_map(static_text);
        let description = texts()
            .find(|(label, _)| *label == "Description")
            .or_else(|| texts().next());
        out.entry_str_if("description", description.map(|(_, text)| text));
    });
}

fn write<W: Write>(
    schema: &MarkerSchema,
    out: &mut JsonWriter<W>,
    write_rows: impl FnOnce(&mut JsonWriter<W>),
) {
    out.begin_object();
    out.entry_str("name", &safe_type(schema));
    out.entry_list("display", &schema.locations, |location, out| {
        out.string(location.name())
    });
    out.entry_str_if("chartLabel", schema.chart_label.as_deref());
    out.entry_str_if("tooltipLabel", schema.tooltip_label.as_deref());
    out.entry_str_if("tableLabel", schema.table_label.as_deref());
    write_rows(out);
    if !schema.graphs.is_empty() {
        out.entry_list("graphs", &schema.graphs, write_graph);
    }
    out.entry_str_if("colorField", schema.color_field.as_deref());
    write_flag(out, "isStackBased", schema.is_stack_based);
    out.end_object();
}

fn static_text(row: &SchemaRow) -> Option<(&str, &str)> {
    match row {
        SchemaRow::Field(_) => None,
        SchemaRow::Static { label, value } => Some((label, value)),
    }
}

fn write_row<W: Write>(row: &SchemaRow, out: &mut JsonWriter<W>) {
    match row {
        SchemaRow::Field(field) => write_field(field, out),
        SchemaRow::Static { label, value } => {
            out.begin_object();
            out.entry_str("label", label);
            out.entry_str("value", value);
            out.end_object();
        }
    }
}

fn write_field<W: Write>(field: &MarkerField, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("key", &safe_key(&field.key));
    out.entry_str_if("label", field.label.as_deref());
    out.key("format");
    match &field.format {
        FieldFormat::Value(format) => write_format(*format, out),
        FieldFormat::Table(columns) => write_table(columns, out),
    }
    write_flag(out, "hidden", field.hidden);
    write_flag(out, "searchable", field.searchable);
    out.end_object();
}

fn write_format<W: Write>(format: Format, out: &mut JsonWriter<W>) {
    out.string(format.name(GECKO_VERSION));
}

fn write_table<W: Write>(columns: &[TableColumn], out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("type", "table");
    out.entry_list("columns", columns, |column, out| {
        out.begin_object();
        out.key("type");
        // Viewers look up the texts of fields, not of cells.
        let in_cell = if column.format.is_string_index() {
            Format::String
        } else {
            column.format
        };
        write_format(in_cell, out);
        out.entry_str_if("label", column.label.as_deref());
        out.end_object();
    });
    out.end_object();
}

fn write_graph<W: Write>(graph: &MarkerGraph, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("key", &safe_key(&graph.key));
    out.entry_str("type", graph.kind.name());
    out.entry_str_if("color", graph.color.map(|color| color.name()));
    out.end_object();
}

fn write_flag<W: Write>(out: &mut JsonWriter<W>, key: &str, flag: bool) {
    if flag {
        out.entry_bool(key, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_core::marker::schema::{GraphColor, GraphType, Location};

    fn written(schema: &MarkerSchema) -> serde_json::Value {
        let mut out = JsonWriter::new(Vec::new());
        write_schema(schema, &mut out);
        serde_json::from_slice(&out.finish().unwrap()).unwrap()
    }

    #[test]
    fn a_bare_schema_has_the_mandatory_keys_only() {
        insta::assert_json_snapshot!(written(&MarkerSchema::in_chart_and_table("Bare")));
    }

    #[test]
    fn everything_that_a_schema_can_say_is_written() {
        let columns = [
            TableColumn::new("Name", Format::String),
            TableColumn {
                format: Format::Bytes,
                label: None,
            },
        ];
        let schema = MarkerSchema::new(
            "Request",
            [Location::MarkerChart, Location::TimelineNetwork],
        )
        .chart_label("{marker.data.url}")
        .tooltip_label("{marker.name}")
        .table_label("{marker.data.size}")
        .field(MarkerField::new("url", Format::Url).label("URL"))
        .field(MarkerField::new("size", Format::Bytes).not_searchable())
        .field(MarkerField::new("color", Format::String).hidden())
        .key_format("address", Format::Hexadecimal)
        .key_format("rows", FieldFormat::table(columns))
        .static_label_value("Description", "One request")
        .graph("size", GraphType::LineFilled, Some(GraphColor::Teal))
        .graph("size", GraphType::Bar, None)
        .color_field("color")
        .stack_based();
        insta::assert_json_snapshot!(written(&schema));
    }
}
