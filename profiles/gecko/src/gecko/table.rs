//! A table of the format: the names of its columns, then its rows.

use std::io::Write;

use profiler_json::JsonWriter;

/// Begins a table under a key, up to its rows. `schema` is JSON: the number of each column.
pub(super) fn begin<W: Write>(key: &str, schema: &str, out: &mut JsonWriter<W>) {
    out.key(key);
    out.begin_object();
    out.key("schema");
    out.raw(schema);
    out.key("data");
    out.begin_array();
}

/// Ends a table after its rows.
pub(super) fn end<W: Write>(out: &mut JsonWriter<W>) {
    out.end_array();
    out.end_object();
}
