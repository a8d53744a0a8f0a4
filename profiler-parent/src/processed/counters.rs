//! Counters over time, and how they are drawn.
//!
//! The pool has absolute values, viewers want differences, the first of which counts as 0. A counter of which
//! nobody took values on the way has two rows: nothing when recording began, all of it at the end. Invariant: no counter
//! is drawn as a rate that is none.

use std::io::{self, Write};

use profiler_core::ids::CounterIndex;
use profiler_core::internal::profile::JsonWriter;
use profiler_core::internal::profile::gecko::shared::resident_bytes;
use profiler_core::internal::reader::{CounterDefinition, CounterInfo};
use profiler_core::session::Features;

use super::process::Process;
use super::rows::Rows;
use super::store::RowStore;

/// Shows all points of a counter.
type Points<'a> = dyn Fn(&mut dyn FnMut(Point)) -> io::Result<()> + 'a;

/// Counters of bytes that are there.
const MEMORY: &str = "Memory";

/// Value and number of changes at one time, in nanoseconds.
type Point = (i64, i64, u64);

/// Writes all counters of a process; the array is open.
pub(super) fn write<W: Write>(
    process: &Process<'_>,
    main_thread: u64,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let sorted = process.sorted;
    for counter in &sorted.snapshot.counters {
        let over_time = sorted.counters.get(&counter.definition.cell).filter(|rows| !rows.is_empty());
        match over_time {
            Some(values) => {
                let points = |show: &mut dyn FnMut(Point)| over_time_of(process, counter, values, rows, show);
                write_counter(process, main_thread, &counter.definition, &points, out)?;
            }
            None => write_total(process, main_thread, counter, out)?,
        }
    }
    if let Some(counter) = resident_memory(process) {
        write_total(process, main_thread, &counter, out)?;
    }
    Ok(())
}

/// Nothing when recording began, the values on the way, and what the counter is now. Of one whose first values are
/// evicted, what was before them is not known; only of memory is it shown as if it had come then.
fn over_time_of(
    process: &Process<'_>,
    counter: &CounterInfo,
    values: &Rows<3>,
    rows: &RowStore,
    show: &mut dyn FnMut(Point),
) -> io::Result<()> {
    let mut last: Option<i64> = None;
    let is_whole = process.sorted.has_all_counters;
    let mut base = (0, 0);
    values.for_each(rows, |[at, value, number]| {
        let (at, value) = (process.ns_of_raw(at), value.cast_signed());
        if last.is_none() {
            let is_known = is_whole || counter.definition.category == MEMORY;
            base = if is_known { (0, 0) } else { (value, number) };
            let start = if is_whole { process.recording_start_ns() } else { at };
            show((start, base.0, base.1));
            last = Some(start);
            if !is_known {
                return;
            }
        }
        let at = last.map_or(at, |last| at.max(last));
        show((at, value, number));
        last = Some(at);
    })?;
    let end = process.end_ns().max(last.unwrap_or(0).saturating_add(1));
    show((end, counter.value, counter.number));
    Ok(())
}

fn write_total<W: Write>(
    process: &Process<'_>,
    main_thread: u64,
    counter: &CounterInfo,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let start = process.recording_start_ns();
    let end = process.end_ns().max(start.saturating_add(1));
    let points = |show: &mut dyn FnMut(Point)| {
        show((start, 0, 0));
        show((end, counter.value, counter.number));
        Ok(())
    };
    write_counter(process, main_thread, &counter.definition, &points, out)
}

/// The memory of a process that lives, if the session wants memory counters and nobody took values of it.
fn resident_memory(process: &Process<'_>) -> Option<CounterInfo> {
    const NAME: &str = "Resident memory";
    let sorted = process.sorted;
    let params = sorted.snapshot.header.params.as_ref();
    let wanted = params.is_some_and(|params| params.features.contains(Features::MEMORY));
    let is_known = sorted.snapshot.counters.iter().any(|counter| counter.definition.name == NAME);
    if !wanted || is_known || sorted.role.ended.is_some() {
        return None;
    }
    let definition = CounterDefinition {
        cell: CounterIndex::new(u32::MAX),
        name: NAME.to_owned(),
        category: MEMORY.to_owned(),
        description: "Memory that the process has resident".to_owned(),
    };
    let bytes = resident_bytes(sorted.role.pid)?;
    Some(CounterInfo { definition, value: i64::try_from(bytes).unwrap_or(i64::MAX), number: 1 })
}

fn write_counter<W: Write>(
    process: &Process<'_>,
    main_thread: u64,
    counter: &CounterDefinition,
    points: &Points<'_>,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    out.begin_object();
    out.entry_str("name", &counter.name);
    out.entry_str("category", &counter.category);
    out.entry_str("description", &counter.description);
    out.entry_str("pid", process.pid);
    out.entry_u64("mainThreadIndex", main_thread);
    let mut len = 0;
    out.key("samples");
    out.begin_object();
    let (mut before, mut first) = (0, true);
    column(out, "timeDeltas", points, |(at, ..), out| {
        out.millis_ns(at.saturating_sub(before));
        before = at;
        len += 1;
    })?;
    let mut before = 0;
    column(out, "count", points, |(_, value, _), out| {
        out.i64(if first { 0 } else { value.saturating_sub(before) });
        (before, first) = (value, false);
    })?;
    let mut before = None;
    column(out, "number", points, |(_, _, number), out| {
        out.u64(before.map_or(0, |before| number.saturating_sub(before)));
        before = Some(number);
    })?;
    out.entry_u64("length", len);
    out.end_object();
    Display::of(counter).write(out);
    out.end_object();
    Ok(())
}

fn column<W: Write>(
    out: &mut JsonWriter<W>,
    name: &str,
    points: &Points<'_>,
    mut item: impl FnMut(Point, &mut JsonWriter<W>),
) -> io::Result<()> {
    out.key(name);
    out.begin_array();
    points(&mut |point| item(point, out))?;
    out.end_array();
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
    /// Source, unit, text.
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
                    ("sample-number", "number", "allocations and deallocations since the previous sample"),
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
                    ("count-range", "bytes", "data transferred in the visible range"),
                ],
                ..level
            },
            // Time for a group, in nanoseconds, and its entries.
            ("Group", _) => Self {
                graph: "line-rate",
                color: "teal",
                weight: 45,
                rows: &[
                    ("count", "number", "nanoseconds since the previous sample"),
                    ("accumulated", "number", "nanoseconds up to this time"),
                    ("sample-number", "number", "entries since the previous sample"),
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
        out.key("tooltipRows");
        out.begin_array();
        for (source, unit, label) in self.rows {
            out.begin_object();
            out.entry_str("type", "value");
            out.entry_str("source", source);
            out.key("format");
            out.begin_object();
            out.entry_str("unit", unit);
            out.end_object();
            out.entry_str("label", label);
            out.end_object();
        }
        out.end_array();
        out.end_object();
    }
}
