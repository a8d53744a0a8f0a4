//! The table of one counter. Each row has the amount that was added since the previous row.

use std::io::Write;

use super::table;
use crate::profile::json::JsonWriter;
use crate::profile::model::{CounterPoint, CounterPoints, ProcessModel};
use crate::reader::CounterInfo;

/// Writes one counter.
#[derive(Debug)]
pub(super) struct CounterTable<'a, 'w, W: Write> {
    points: CounterPoints<'a>,
    out: &'w mut JsonWriter<W>,
}

impl<'a, 'w, W: Write> CounterTable<'a, 'w, W> {
    /// Begins a counter, up to its rows.
    pub(super) fn begin(
        process: &'a ProcessModel<'a>,
        counter: &'a CounterInfo,
        out: &'w mut JsonWriter<W>,
    ) -> Self {
        out.begin_object();
        out.entry_str("name", &counter.definition.name);
        out.entry_str("category", &counter.definition.category);
        out.entry_str("description", &counter.definition.description);
        table::begin("samples", r#"{"time":0,"count":1,"number":2}"#, out);
        Self {
            points: CounterPoints::new(process, counter),
            out,
        }
    }

    /// Writes the next value of the counter; see [`CounterPoints::value`].
    pub(super) fn write(&mut self, value: CounterPoint, is_whole: bool) {
        self.points
            .value(value, is_whole, |point| write_row(point, self.out));
    }

    /// Ends the counter with its present value.
    pub(super) fn end(self) {
        self.points.end(|point| write_row(point, self.out));
        table::end(self.out);
        self.out.end_object();
    }
}

fn write_row<W: Write>(point: CounterPoint, out: &mut JsonWriter<W>) {
    out.begin_array();
    out.millis_ns(point.at_ns);
    out.i64(point.value);
    out.u64(point.number);
    out.end_array();
}
