//! Values of marker payloads as JSON.
//!
//! Called per field by [`super::marker_rows`]. The recursion is bounded: the payload reader does
//! not return lists that are nested more than twice.

use std::io::Write;

use profiler_core::internal::payload::FieldValue;
use profiler_json::JsonWriter;

/// Writes one decoded value; numbers that are not finite become `null`.
pub fn write_value<W: Write>(value: FieldValue<'_>, out: &mut JsonWriter<W>) {
    match value {
        FieldValue::None => out.null(),
        FieldValue::Bool(value) => out.bool(value),
        FieldValue::U64(value) => out.u64(value),
        FieldValue::I64(value) => out.i64(value),
        FieldValue::F64(value) => out.f64(value),
        FieldValue::Str(value) => out.string(value),
        FieldValue::List(items) => {
            out.begin_array();
            items.for_each(|item| write_value(item, out));
            out.end_array();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use profiler_core::internal::payload::{PayloadReader, encode};

    #[test]
    fn values_are_written_as_serde_json_writes_them() {
        #[derive(Serialize)]
        struct Payload {
            yes: bool,
            below: i32,
            above: u64,
            half: f64,
            nan: f64,
            text: &'static str,
            none: Option<u8>,
            rows: Vec<(&'static str, u8)>,
        }
        let rows = vec![("a", 1), ("b", 2)];
        let payload = Payload {
            yes: true,
            below: -1,
            above: 7,
            half: 0.5,
            nan: f64::NAN,
            text: "\"",
            none: None,
            rows,
        };
        let mut room = [0; 128];
        let used = encode(&payload, &mut room).unwrap();
        let mut out = JsonWriter::new(Vec::new());
        PayloadReader::new(&room[..used]).for_each(|value| write_value(value.unwrap(), &mut out));
        let json = String::from_utf8(out.finish().unwrap()).unwrap();
        assert_eq!(json, r#"true,-1,7,0.5,null,"\"",null,[["a",1],["b",2]]"#);
    }
}
