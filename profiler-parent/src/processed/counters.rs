//! Writes the counters of a process over time, and how viewers draw them.
//!
//! The profile model provides the points. A counter whose values were not recorded over time has
//! two points: zero when recording began, and its value at the end. Invariant: only counters of a
//! rate are drawn as a rate.

use std::io::{self, Write};

use profiler_core::internal::profile::JsonWriter;
use profiler_core::internal::profile::model::{
    CounterPoint, CounterPoints, MEMORY, resident_memory,
};
use profiler_core::internal::reader::{CounterDefinition, CounterInfo};

use super::process::Process;
use super::store::RowStore;

/// Writes all counters of a process into the open array.
pub(super) fn write<W: Write>(
    process: &Process<'_>,
    main_thread: u64,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let resident = resident_memory(&process.model);
    for counter in process.sorted.snapshot.counters.iter().chain(&resident) {
        write_counter(process, main_thread, counter, rows, out)?;
    }
    Ok(())
}

/// Calls `show` with every point of a counter.
fn for_each_point(
    process: &Process<'_>,
    counter: &CounterInfo,
    rows: &RowStore,
    show: &mut dyn FnMut(CounterPoint),
) -> io::Result<()> {
    let is_whole = process.sorted.has_all_counters;
    let mut points = CounterPoints::new(&process.model, counter);
    if let Some(values) = process.sorted.counters.get(&counter.definition.cell) {
        values.for_each(rows, |[at, value, number]| {
            let at_ns = process.ns_of_raw(at);
            let value = value.cast_signed();
            points.value(
                CounterPoint {
                    at_ns,
                    value,
                    number,
                },
                is_whole,
                &mut *show,
            );
        })?;
    }
    points.end(show);
    Ok(())
}

fn write_counter<W: Write>(
    process: &Process<'_>,
    main_thread: u64,
    counter: &CounterInfo,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let definition = &counter.definition;
    out.begin_object();
    out.entry_str("name", &definition.name);
    out.entry_str("category", &definition.category);
    out.entry_str("description", &definition.description);
    out.entry_str("pid", process.pid);
    out.entry_u64("mainThreadIndex", main_thread);
    out.key("samples");
    out.begin_object();
    let mut column = |name: &str, item: &mut dyn FnMut(CounterPoint, &mut JsonWriter<W>)| {
        out.key(name);
        out.begin_array();
        for_each_point(process, counter, rows, &mut |point| item(point, out))?;
        out.end_array();
        io::Result::Ok(())
    };
    let mut before = 0;
    let mut len = 0;
    column("timeDeltas", &mut |point, out| {
        out.millis_ns(point.at_ns.saturating_sub(before));
        before = point.at_ns;
        len += 1;
    })?;
    column("count", &mut |point, out| out.i64(point.value))?;
    column("number", &mut |point, out| out.u64(point.number))?;
    out.entry_u64("length", len);
    out.end_object();
    Display::of(definition).write(out);
    out.end_object();
    Ok(())
}

/// How a counter is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Display<'a> {
    graph: &'static str,
    unit: &'static str,
    color: &'static str,
    location: Option<&'static str>,
    weight: u64,
    label: &'a str,
    /// Rows of the tooltip: source, unit and text.
    rows: &'static [(&'static str, &'static str, &'static str)],
}

impl<'a> Display<'a> {
    fn of(counter: &'a CounterDefinition) -> Self {
        let label = counter.name.as_str();
        let level = Self {
            graph: "line-accumulated",
            unit: "",
            color: "grey",
            location: None,
            weight: 50,
            label,
            rows: &[
                ("accumulated", "number", "value at this time"),
                ("count", "number", "change since the previous sample"),
                ("count-range", "number", "range in graph"),
            ],
        };
        match (counter.category.as_str(), label) {
            (MEMORY, _) => Self {
                unit: "bytes",
                color: "orange",
                location: Some("timeline-memory"),
                weight: 20,
                rows: &[
                    ("accumulated", "bytes", "memory at this time"),
                    ("count-range", "bytes", "memory range in graph"),
                    (
                        "sample-number",
                        "number",
                        "allocations and deallocations since the previous sample",
                    ),
                ],
                ..level
            },
            ("Bandwidth", _) => Self {
                graph: "line-rate",
                unit: "bytes",
                color: "blue",
                weight: 10,
                rows: &[
                    ("rate", "bytes-per-second", "transfer speed for this sample"),
                    ("accumulated", "bytes", "data transferred up to this time"),
                    (
                        "count-range",
                        "bytes",
                        "data transferred in the visible range",
                    ),
                ],
                ..level
            },
            // The time spent in a group, in nanoseconds, and the number of entries into it.
            ("Group", _) => Self {
                graph: "line-rate",
                color: "teal",
                weight: 45,
                rows: &[
                    ("count", "number", "nanoseconds since the previous sample"),
                    ("accumulated", "number", "nanoseconds up to this time"),
                    (
                        "sample-number",
                        "number",
                        "entries since the previous sample",
                    ),
                ],
                ..level
            },
            ("CPU", "processCPU") => Self {
                graph: "line-rate",
                unit: "percent",
                weight: 40,
                label: "Process CPU",
                rows: &[("cpu-ratio", "percent", "CPU")],
                ..level
            },
            _ => level,
        }
    }

    fn write<W: Write>(self, out: &mut JsonWriter<W>) {
        out.key("display");
        out.begin_object();
        out.entry_str("graphType", self.graph);
        out.entry_str("unit", self.unit);
        out.entry_str("color", self.color);
        out.key("markerSchemaLocation");
        match self.location {
            Some(location) => out.string(location),
            None => out.null(),
        }
        out.entry_u64("sortWeight", self.weight);
        out.entry_str("label", self.label);
        out.entry_list("tooltipRows", self.rows, |(source, unit, label), out| {
            out.begin_object();
            out.entry_str("type", "value");
            out.entry_str("source", source);
            out.entry_object("format", |out| out.entry_str("unit", unit));
            out.entry_str("label", label);
            out.end_object();
        });
        out.end_object();
    }
}
