//! The table of one counter. Each row has the amount that was added since the previous row.

use std::io::Write;

use super::table;
use crate::model::{CounterKind, CounterPoint, CounterPoints, ProcessModel};
use profiler_core::internal::reader::CounterInfo;
use profiler_json::JsonWriter;

/// Writes one counter.
#[derive(Debug)]
pub(super) struct CounterTable<'a, 'w, W: Write> {
    process: &'a ProcessModel<'a>,
    counter: &'a CounterInfo,
    points: CounterPoints,
    out: &'w mut JsonWriter<W>,
}

impl<'a, 'w, W: Write> CounterTable<'a, 'w, W> {
    /// Begins a counter, up to its rows. It was zero when recording began if `is_whole`, that is,
    /// if all its values are there.
    pub(super) fn begin(
        process: &'a ProcessModel<'a>,
        counter: &'a CounterInfo,
        is_whole: bool,
        out: &'w mut JsonWriter<W>,
    ) -> Self {
        out.begin_object();
        out.entry_str("name", &counter.definition.name);
        out.entry_str("category", &counter.definition.category);
        out.entry_str("description", &counter.definition.description);
        table::begin("samples", r#"{"time":0,"count":1,"number":2}"#, out);
        let at_ns = process.recording_start_ns();
        let mut table = Self {
            process,
            counter,
            points: CounterPoints::new(process, &counter.definition, at_ns),
            out,
        };
        if is_whole {
            table.write(CounterPoint {
                at_ns,
                ..CounterPoint::default()
            });
        }
        table
    }

    /// Writes the next value of the counter; see [`CounterPoints::value`].
    pub(super) fn write(&mut self, value: CounterPoint) {
        let kind = CounterKind::of(&self.counter.definition);
        self.points
            .value(value, |point| write_row(kind, point, self.out));
    }

    /// Ends the counter with its present value.
    pub(super) fn end(self) {
        let CounterInfo { value, number, .. } = *self.counter;
        let kind = CounterKind::of(&self.counter.definition);
        let at_ns = self.process.end_ns();
        let present = CounterPoint {
            at_ns,
            value,
            number,
        };
        self.points.end(at_ns, Some(present), |point| {
            write_row(kind, point, self.out)
        });
        table::end(self.out);
        self.out.end_object();
    }
}

fn write_row<W: Write>(kind: CounterKind, point: CounterPoint, out: &mut JsonWriter<W>) {
    out.begin_array();
    out.millis_ns(point.at_ns);
    kind.write_change(point.value, out);
    out.u64(point.number);
    out.end_array();
}
