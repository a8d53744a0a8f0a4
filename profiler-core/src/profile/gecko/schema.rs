//! Marker schemas in the Gecko format: one element each of `meta.markerSchema`.
//!
//! Called by whoever writes `meta`. Names that mean something else to viewers get an underscore,
//! here as in the rows ([`super::plan`]). What equals the viewer's default is left out.

use std::io::Write;

use super::GECKO_VERSION;
use super::plan::{safe_key, safe_type};
use crate::profile::json::JsonWriter;
use crate::schema::{FieldFormat, Format, MarkerField, MarkerGraph, MarkerSchema, SchemaRow, TableColumn};

/// Writes one marker schema.
pub fn write_schema<W: Write>(schema: &MarkerSchema, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("name", &safe_type(&schema.name));
    write_list(out, "display", &schema.locations, |location, out| out.string(location.name()));
    write_label(out, "chartLabel", schema.chart_label.as_deref());
    write_label(out, "tooltipLabel", schema.tooltip_label.as_deref());
    write_label(out, "tableLabel", schema.table_label.as_deref());
    write_list(out, "data", &schema.rows, write_row);
    if !schema.graphs.is_empty() {
        write_list(out, "graphs", &schema.graphs, write_graph);
    }
    write_label(out, "colorField", schema.color_field.as_deref());
    write_flag(out, "isStackBased", schema.is_stack_based);
    out.end_object();
}

/// Writes one marker schema as the processed format has it: fields, and one text that describes them.
pub fn write_processed_schema<W: Write>(schema: &MarkerSchema, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("name", &safe_type(&schema.name));
    write_list(out, "display", &schema.locations, |location, out| out.string(location.name()));
    write_label(out, "chartLabel", schema.chart_label.as_deref());
    write_label(out, "tooltipLabel", schema.tooltip_label.as_deref());
    write_label(out, "tableLabel", schema.table_label.as_deref());
    let fields: Vec<&SchemaRow> =
        schema.rows.iter().filter(|row| matches!(row, SchemaRow::Field(_))).collect();
    write_list(out, "fields", &fields, |row, out| write_row(row, out));
    let texts = || schema.rows.iter().filter_map(static_text);
    let description = texts().find(|(label, _)| *label == "Description").or_else(|| texts().next());
    write_label(out, "description", description.map(|(_, text)| text));
    if !schema.graphs.is_empty() {
        write_list(out, "graphs", &schema.graphs, write_graph);
    }
    write_label(out, "colorField", schema.color_field.as_deref());
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
    write_label(out, "label", field.label.as_deref());
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
    write_list(out, "columns", columns, |column, out| {
        out.begin_object();
        out.key("type");
        // Viewers look up the texts of fields, not of cells.
        let in_cell = if column.format.is_string_index() { Format::String } else { column.format };
        write_format(in_cell, out);
        write_label(out, "label", column.label.as_deref());
        out.end_object();
    });
    out.end_object();
}

fn write_graph<W: Write>(graph: &MarkerGraph, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("key", &safe_key(&graph.key));
    out.entry_str("type", graph.kind.name());
    write_label(out, "color", graph.color.map(|color| color.name()));
    out.end_object();
}

fn write_list<W: Write, T>(
    out: &mut JsonWriter<W>,
    key: &str,
    items: &[T],
    write: impl Fn(&T, &mut JsonWriter<W>),
) {
    out.key(key);
    out.begin_array();
    items.iter().for_each(|item| write(item, out));
    out.end_array();
}

fn write_label<W: Write>(out: &mut JsonWriter<W>, key: &str, label: Option<&str>) {
    if let Some(label) = label {
        out.entry_str(key, label);
    }
}

fn write_flag<W: Write>(out: &mut JsonWriter<W>, key: &str, flag: bool) {
    if flag {
        out.entry_bool(key, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{GraphColor, GraphType, Location};

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
        let columns =
            [TableColumn::new("Name", Format::String), TableColumn { format: Format::Bytes, label: None }];
        let schema = MarkerSchema::new("Request", [Location::MarkerChart, Location::TimelineNetwork])
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
