//! The markers of threads: intervals, starts and ends of intervals, and instants.
//!
//! The start and the end of a span may be in different batches, and on different threads of the
//! process: they have the same host, session, process and span number. Fields are two arrays, of
//! keys and of values. Invariant: a marker without any time is left out.

use std::collections::HashMap;

use super::FleetTable;
use super::rows::{Row, Rows, instant};
use super::samples::write_thread;
use crate::ExportError;
use crate::payload::Payload;
use crate::recording::Thread;
use profiler_reader::bounded_ns;
use profiler_reader::{Meta, RawMarker, TextField, as_index};

/// The member of a payload that is its type.
const TYPE: &str = "type";

/// Writes the markers of threads.
#[derive(Debug)]
pub(super) struct SpanRows {
    text_fields: HashMap<String, Vec<TextField>>,
    categories: Vec<String>,
}

impl SpanRows {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            text_fields: meta.text_fields(),
            categories: meta.category_names().map(str::to_owned).collect(),
        }
    }

    /// Writes the markers of a thread.
    pub(super) fn write(
        &self,
        thread: &Thread<'_>,
        rows: &mut Rows<'_>,
    ) -> Result<(), ExportError> {
        for marker in thread.markers.iter() {
            let at = |ms: f64| {
                let ns = bounded_ns(ms).saturating_add(thread.shift_ns);
                ms.is_finite().then(|| rows.identity.unix_ns(ns))
            };
            let times = (at(marker.start), at(marker.end));
            let Some(first) = times.0.or(times.1) else {
                continue;
            };
            rows.add(FleetTable::Spans, first, |row| {
                self.write_marker(&marker, times, thread, row);
            })?;
        }
        Ok(())
    }

    fn write_marker(
        &self,
        marker: &RawMarker<'_>,
        (start, end): (Option<i64>, Option<i64>),
        thread: &Thread<'_>,
        row: &mut Row,
    ) {
        let name = as_index(marker.name).and_then(|name| thread.texts.get(name));
        let category = as_index(marker.category).and_then(|index| self.categories.get(index));
        let phase = match as_index(marker.phase) {
            Some(1) => "interval",
            Some(2) => "start",
            Some(3) => "end",
            _ => "instant",
        };
        write_thread(thread, row);
        row.entry_str("name", name.map_or("", String::as_str));
        row.entry_str("category", category.map_or("Other", String::as_str));
        row.entry_str("phase", phase);
        row.entry_u64("start_ns", start.map_or(0, instant));
        row.entry_u64("end_ns", end.map_or(0, instant));
        row.entry_u64("span", marker.span().unwrap_or(0));
        let payload = Payload::of(marker.data, &self.text_fields, thread.texts);
        write_fields(&payload, row);
    }
}

/// Writes the type of a payload, and its other members as two arrays.
fn write_fields(payload: &Payload<'_>, row: &mut Row) {
    let fields = || payload.members().filter(|(key, _)| *key != TYPE);
    let kind = payload.members().find(|(key, _)| *key == TYPE);
    row.entry_str(
        "kind",
        &kind.map_or_else(String::new, |(_, kind)| plain(kind)),
    );
    row.entry_list("field.key", fields(), |(key, _), row| row.string(key));
    row.entry_list("field.value", fields(), |(_, value), row| {
        row.string(&plain(value));
    });
}

/// A text without its quotation marks, or another value as JSON.
fn plain(json: &str) -> String {
    match json.starts_with('"') {
        true => serde_json::from_str(json).unwrap_or_default(),
        false => json.to_owned(),
    }
}
