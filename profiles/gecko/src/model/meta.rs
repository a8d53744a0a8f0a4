//! The parts of the key `meta` that both formats have.
//!
//! The formats write the keys in different orders, so there is a function for each part.

use std::collections::HashSet;
use std::io::Write;

use super::marker_plans::safe_type;
use super::marker_rows::NO_PAYLOAD;
use super::{categories, contexts, incomplete, level, losses, machine, schema, slow_run};
use crate::{CategoryRow, RangeLimits, ShownRange};
use profiler_core::internal::reader::Definitions;
use profiler_core::marker::schema::{Location, MarkerSchema};
use profiler_core::session::SessionParams;
use profiler_core::time::SessionClock;
use profiler_json::JsonWriter;

/// Times further outside the session than this, in nanoseconds, are not shown. Otherwise one wrong
/// timestamp would compress all other data to a point.
const MARGIN_NS: i64 = 60_000_000_000;

/// Properties of a profile that viewers show under a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaSection {
    /// The title.
    pub label: &'static str,
    /// The names of the properties, and their values.
    pub rows: Vec<(&'static str, String)>,
}

impl MetaSection {
    /// Writes the section as an element of the list `extra`.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("label", self.label);
        out.entry_list("entries", &self.rows, |(label, text), out| {
            out.begin_object();
            out.entry_str("label", label);
            out.entry_str("format", "string");
            out.entry_str("value", text);
            out.end_object();
        });
        out.end_object();
    }
}

/// Writes when the session started.
pub fn write_start<W: Write>(clock: &SessionClock, out: &mut JsonWriter<W>) {
    out.entry_millis_ns("startTime", i64::try_from(clock.start_unix.0).ok());
    out.entry_u64(
        "startTimeAsClockMonotonicNanosecondsSinceBoot",
        clock.start.monotonic.0,
    );
    // A viewer keeps `startTime` as a floating-point number, which is exact to a quarter of a
    // microsecond.
    out.entry_u64("startUnixNs", clock.start_unix.0);
}

/// Writes the range of time that viewers show: the profile's range, as far as it is limited, and
/// otherwise the time of the session with all entries.
pub fn write_shown_range<W: Write>(
    shown: ShownRange,
    capture_ns: i64,
    limits: RangeLimits,
    out: &mut JsonWriter<W>,
) {
    let first = shown.first_ns.clamp(-MARGIN_NS, 0);
    let last = shown
        .last_ns
        .clamp(capture_ns, capture_ns.saturating_add(MARGIN_NS));
    // A limit outside of the session does not count.
    let first = limits
        .from_ns
        .map_or(first, |from| from.min(last).max(first));
    let last = limits.to_ns.map_or(last, |to| to.min(last).max(first));
    out.entry_millis_ns("profilingStartTime", Some(first));
    // Viewers exclude the end itself.
    out.entry_millis_ns("profilingEndTime", Some(last.saturating_add(1)));
}

/// How a format writes marker schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaFormat {
    /// Rows.
    Gecko,
    /// Fields and a description.
    Processed,
}

/// Writes the properties of the machine, the units of all columns, the session's parameters, the
/// categories, and the marker types of all processes.
pub fn write_session<W: Write>(
    params: &SessionParams,
    rows: &[CategoryRow],
    definitions: &[&Definitions],
    format: SchemaFormat,
    out: &mut JsonWriter<W>,
) {
    machine::write(out);
    out.entry_str("misc", "");
    out.entry_str("toolkit", "");
    out.entry_object("sampleUnits", |out| {
        out.entry_str("time", "ms");
        out.entry_str("eventDelay", "ms");
        out.entry_str("threadCPUDelta", "ns");
    });
    out.entry_object("configuration", |out| write_configuration(params, out));
    categories::write(rows, out);
    write_schemas(definitions, format, out);
}

fn write_configuration<W: Write>(params: &SessionParams, out: &mut JsonWriter<W>) {
    out.entry_list("features", params.features.names(), |name, out| {
        out.string(name)
    });
    out.entry_list("threads", &params.filters, |filter, out| out.string(filter));
    out.entry_millis_ns("interval", i64::try_from(params.interval_ns).ok());
    if let Some(budget) = params.overhead_budget {
        out.key("overheadBudget"); // in percent of the processor time of each process
        out.f64(budget.percent());
    }
    // As in Gecko, counted in entries of 8 bytes.
    out.entry_u64("capacity", params.limit.get() / 8);
    if params.window_ns > 0 {
        // In seconds, unlike all other times: a thousandth of it, printed as milliseconds.
        out.entry_millis_ns("duration", i64::try_from(params.window_ns / 1_000).ok());
    }
    out.entry_u64("activeTabID", 0);
}

/// Writes all types that any process defines; of several types with one name, only the first.
fn write_schemas<W: Write>(
    definitions: &[&Definitions],
    format: SchemaFormat,
    out: &mut JsonWriter<W>,
) {
    let mut definition = definitions.iter();
    let has_contexts = definition.any(|definitions| definitions.has_contexts());
    let mut own = vec![
        losses::schema(),
        incomplete::schema(),
        slow_run::schema(),
        stack_only_schema(format),
    ];
    if format == SchemaFormat::Gecko {
        own.extend(level::schemas());
    }
    if has_contexts {
        own.push(contexts::schema());
    }
    let known = definitions
        .iter()
        .flat_map(|definitions| definitions.marker_types());
    let mut names = HashSet::new();
    let is_first = |schema: &&MarkerSchema| names.insert(safe_type(schema).into_owned());
    let all = own
        .iter()
        .chain(known.map(|known| &known.schema))
        .filter(is_first);
    out.entry_list("markerSchema", all, |known, out| {
        let known = match has_contexts {
            true => &contexts::with_trace(known),
            false => known,
        };
        match format {
            SchemaFormat::Gecko => schema::write_schema(known, out),
            SchemaFormat::Processed => schema::write_processed_schema(known, out),
        }
    });
}

/// How viewers show markers that have a stack and no payload.
fn stack_only_schema(format: SchemaFormat) -> MarkerSchema {
    match format {
        SchemaFormat::Gecko => MarkerSchema::in_chart_and_table(NO_PAYLOAD),
        SchemaFormat::Processed => {
            let locations = [
                Location::MarkerChart,
                Location::MarkerTable,
                Location::TimelineOverview,
            ];
            MarkerSchema::new(NO_PAYLOAD, locations).all_labels("{marker.name}")
        }
    }
}
