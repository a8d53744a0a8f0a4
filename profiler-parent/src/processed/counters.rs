//! Writes the counters of a process over time, and how viewers draw them.
//!
//! The profile model provides the points, and says which counters are rates. A counter whose values
//! were not recorded over time has two points: zero when recording began, and its value at the end.
//! Invariant: only counters of a rate are drawn as a rate.

use std::io::{self, Write};

use profiler_core::ids::CounterIndex;
use profiler_core::internal::reader::CounterInfo;
use profiler_gecko::model::{
    CounterKind, CounterPoint, CounterPoints, MEMORY, is_counter_shown, resident_memory,
};
use profiler_json::JsonWriter;

use super::process::WrittenProcess;
use super::store::RowStore;
use super::tick_detail::{CounterChanges, TickDetail};

/// Writes all counters of a process into the open array. A profile that ends before the capture has
/// the counters whose values are known in its range.
pub(super) fn write<W: Write>(
    process: &WrittenProcess<'_>,
    main_thread: u64,
    detail: TickDetail,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let written = |counter| CounterWriter {
        process,
        main_thread,
        counter,
        rows,
        detail,
    };
    let counters = process.sorted.snapshot.counters.iter();
    for counter in counters.filter(|counter| is_counter_shown(counter)) {
        let cell = counter.definition.cell;
        let has_values = process.sorted.counters_before.contains_key(&cell)
            || process.sorted.counters.of(cell).is_some()
            || written(counter).slow_runs().1 > 0;
        if has_values || !process.is_cut() {
            written(counter).write(out)?;
        }
    }
    match resident_memory(&process.model).filter(|_| !process.is_cut()) {
        Some(counter) => written(&counter).write(out),
        None => Ok(()),
    }
}

/// The value of a counter at the beginning of the profile, if it is known.
fn first_value(
    process: &WrittenProcess<'_>,
    cell: CounterIndex,
    start_ns: i64,
) -> Option<CounterPoint> {
    let before = process.sorted.counters_before.get(&cell);
    let zero = process.sorted.has_all_counters.then_some(&[0; 3]);
    before.or(zero).map(|[_, value, number]| CounterPoint {
        at_ns: start_ns,
        value: value.cast_signed(),
        number: *number,
    })
}

/// The points of a counter, at every tick or for each second.
enum DetailedPoints {
    EveryTick(CounterPoints),
    EachSecond(CounterChanges),
}

impl DetailedPoints {
    fn value(&mut self, value: CounterPoint, show: &mut dyn FnMut(CounterPoint)) {
        match self {
            Self::EveryTick(points) => points.value(value, show),
            Self::EachSecond(points) => points.value(value, show),
        }
    }

    fn end(self, end_ns: i64, present: Option<CounterPoint>, show: &mut dyn FnMut(CounterPoint)) {
        match self {
            Self::EveryTick(points) => points.end(end_ns, present, show),
            Self::EachSecond(points) => points.end(end_ns, present, show),
        }
    }
}

/// A counter of a process that is written.
struct CounterWriter<'w> {
    process: &'w WrittenProcess<'w>,
    main_thread: u64,
    counter: &'w CounterInfo,
    rows: &'w RowStore,
    detail: TickDetail,
}

impl CounterWriter<'_> {
    /// The time from which on its values are known.
    fn start_ns(&self) -> i64 {
        let WrittenProcess { model, sorted, .. } = self.process;
        let start_ns = model.recording_start_ns();
        let from_ns = model.limits().from_ns;
        let start_ns = from_ns.map_or(start_ns, |from| from.max(start_ns));
        let earlier_ns = sorted.earlier.end().map(|at| model.ns(at));
        earlier_ns.map_or(start_ns, |end| end.max(start_ns))
    }

    /// Calls `show` with every point.
    fn for_each_point(&self, show: &mut dyn FnMut(CounterPoint)) -> io::Result<()> {
        let Self {
            process, counter, ..
        } = self;
        let cell = counter.definition.cell;
        let start_ns = self.start_ns();
        let mut points = self.empty_points(start_ns);
        let first = first_value(process, cell, start_ns);
        let mut known = first.map(|first| (first, first));
        if let Some(first) = first {
            points.value(first, show);
        }
        if let Some(values) = process.sorted.counters.of(cell) {
            values.for_each(self.rows, |[at, value, number]| {
                let point = CounterPoint {
                    at_ns: process.ns_of_raw(at),
                    value: value.cast_signed(),
                    number,
                };
                known = Some((known.map_or(point, |(first, _)| first), point));
                points.value(point, show);
            })?;
        }
        let end_ns = process.model.end_ns();
        let present = CounterPoint {
            at_ns: end_ns,
            value: counter.value,
            number: counter.number,
        };
        points.end(end_ns, self.last_value(present, known), show);
        Ok(())
    }

    /// The value at the end of the profile; `None` for the last one in its range. `present` is the
    /// value at the capture, and `known` are the first and the last value in the range. The time of
    /// a group is noted at the next tick, which may be after the end of a slow run and of the
    /// profile.
    fn last_value(
        &self,
        present: CounterPoint,
        known: Option<(CounterPoint, CounterPoint)>,
    ) -> Option<CounterPoint> {
        if !self.process.is_cut() {
            return Some(present);
        }
        let (runs_ns, runs) = self.slow_runs();
        let (first, last) = known.unwrap_or_default();
        let value = first.value.saturating_add(runs_ns);
        let number = first.number.saturating_add(runs);
        let is_missing = runs > 0 && last.value < value;
        is_missing.then_some(CounterPoint {
            value,
            number: number.max(last.number),
            ..present
        })
    }

    /// The time and the number of the slow runs that the profile shows, if this counter is that of
    /// their group.
    fn slow_runs(&self) -> (i64, u64) {
        let definition = &self.counter.definition;
        match CounterKind::of(definition) {
            CounterKind::GroupTime => self.process.slow_runs.of_group(&definition.name),
            CounterKind::Level | CounterKind::Rate => (0, 0),
        }
    }

    fn empty_points(&self, start_ns: i64) -> DetailedPoints {
        let Self {
            process, counter, ..
        } = self;
        let definition = &counter.definition;
        match self.detail {
            TickDetail::EveryTick => {
                DetailedPoints::EveryTick(CounterPoints::new(&process.model, definition, start_ns))
            }
            TickDetail::EachSecond => DetailedPoints::EachSecond(CounterChanges::new(
                CounterKind::of(definition),
                start_ns,
            )),
        }
    }

    fn write<W: Write>(&self, out: &mut JsonWriter<W>) -> io::Result<()> {
        let definition = &self.counter.definition;
        out.begin_object();
        out.entry_str("name", &definition.name);
        out.entry_str("category", &definition.category);
        out.entry_str("description", &definition.description);
        out.entry_str("pid", self.process.pid);
        out.entry_u64("mainThreadIndex", self.main_thread);
        out.key("samples");
        out.begin_object();
        self.write_columns(out)?;
        out.end_object();
        let display = Display::of(self.counter);
        match self.detail {
            TickDetail::EveryTick => display.write(out),
            TickDetail::EachSecond => out.entry_str("unit", display.unit),
        }
        out.end_object();
        Ok(())
    }

    fn write_columns<W: Write>(&self, out: &mut JsonWriter<W>) -> io::Result<()> {
        let mut column = |name: &str, item: &mut dyn FnMut(CounterPoint, &mut JsonWriter<W>)| {
            out.key(name);
            out.begin_array();
            self.for_each_point(&mut |point| item(point, out))?;
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
        let kind = CounterKind::of(&self.counter.definition);
        column("count", &mut |point, out| {
            kind.write_change(point.value, out)
        })?;
        column("number", &mut |point, out| out.u64(point.number))?;
        out.entry_u64("length", len);
        Ok(())
    }
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
    fn of(counter: &'a CounterInfo) -> Self {
        let counter = &counter.definition;
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
        let kind = CounterKind::of(counter);
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
            // The time spent in a group, in milliseconds, and the number of entries into it.
            _ if kind == CounterKind::GroupTime => Self {
                graph: "line-rate",
                unit: "ms",
                color: "teal",
                weight: 45,
                rows: &[
                    ("rate", "percent", "of the time"),
                    ("accumulated", "number", "milliseconds up to this time"),
                    ("count-range", "number", "milliseconds in the visible range"),
                    (
                        "sample-number",
                        "number",
                        "entries since the previous point",
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
