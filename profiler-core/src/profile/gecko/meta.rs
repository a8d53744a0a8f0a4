//! `meta`: what holds for the whole process, and for the root's the whole profile.
//!
//! Viewers read most of it from the root only; children carry the same keys, so that each
//! object can also be opened on its own.

use std::collections::HashSet;
use std::io::Write;

use super::context::Context;
use super::{GECKO_VERSION, categories, late, losses, machine, markers, schema};
use crate::params::{Features, SessionParams};
use crate::profile::json::JsonWriter;
use crate::profile::spec::ShownRange;
use crate::schema::MarkerSchema;

/// Nothing is shown that lies further outside the session than this, in nanoseconds: one
/// nonsensical timestamp must not squeeze everything else into a point.
pub const MARGIN_NS: i64 = 60_000_000_000;

/// Writes `meta`, with the shown range if this is the root.
pub(super) fn write<W: Write>(context: &Context<'_>, shown: ShownRange, out: &mut JsonWriter<W>) {
    let default = SessionParams::default();
    let params = context.snapshot.header.params.as_ref().unwrap_or(&default);
    out.key("meta");
    out.begin_object();
    out.entry_u64("version", u64::from(GECKO_VERSION));
    out.entry_millis_ns("interval", i64::try_from(params.interval_ns).ok());
    write_times(context, shown, out);
    write_process_kind(context, params, out);
    write_platform(out);
    write_units(out);
    write_configuration(params, out);
    categories::write(&context.spec.categories, out);
    write_schemas(context, out);
    out.end_object();
}

fn write_times<W: Write>(context: &Context<'_>, shown: ShownRange, out: &mut JsonWriter<W>) {
    out.entry_millis_ns("startTime", i64::try_from(context.clock.start_unix.0).ok());
    out.entry_u64("startTimeAsClockMonotonicNanosecondsSinceBoot", context.clock.start.monotonic.0);
    out.entry_millis_ns("shutdownTime", context.ended.map(|at| context.ns(at)));
    if context.role.is_root {
        let capture = context.capture_ns();
        let first = shown.first_ns.clamp(-MARGIN_NS, 0);
        let last = shown.last_ns.clamp(capture, capture.saturating_add(MARGIN_NS));
        out.entry_millis_ns("profilingStartTime", Some(first));
        // Viewers leave the end itself out.
        out.entry_millis_ns("profilingEndTime", Some(last.saturating_add(1)));
    }
}

fn write_process_kind<W: Write>(context: &Context<'_>, params: &SessionParams, out: &mut JsonWriter<W>) {
    out.entry_u64("processType", u64::from(!context.role.is_root));
    out.entry_str("product", &context.role.name);
    out.entry_u64("stackwalk", u64::from(params.features.contains(Features::STACK_WALK)));
    for unused in ["debug", "gcpoison", "asyncstack"] {
        out.entry_u64(unused, 0);
    }
}

/// Writes what the machine is.
pub fn write_platform<W: Write>(out: &mut JsonWriter<W>) {
    machine::write(out);
    out.entry_str("misc", "");
    out.entry_str("toolkit", "");
}

/// Writes the units of all columns.
pub fn write_units<W: Write>(out: &mut JsonWriter<W>) {
    out.key("sampleUnits");
    out.begin_object();
    out.entry_str("time", "ms");
    out.entry_str("eventDelay", "ms");
    out.entry_str("threadCPUDelta", "ns");
    out.end_object();
}

/// Writes what the session was asked to record.
pub fn write_configuration<W: Write>(params: &SessionParams, out: &mut JsonWriter<W>) {
    out.key("configuration");
    out.begin_object();
    out.key("features");
    out.begin_array();
    params.features.names().for_each(|name| out.string(name));
    out.end_array();
    out.key("threads");
    out.begin_array();
    params.filters.iter().for_each(|filter| out.string(filter));
    out.end_array();
    out.entry_millis_ns("interval", i64::try_from(params.interval_ns).ok());
    // As in Gecko, counted in entries of 8 bytes.
    out.entry_u64("capacity", params.limit.get() / 8);
    if params.window_ns > 0 {
        // In seconds, unlike everything else: a thousandth of it, printed as milliseconds.
        out.entry_millis_ns("duration", i64::try_from(params.window_ns / 1_000).ok());
    }
    out.entry_u64("activeTabID", 0);
    out.end_object();
}

/// All types that the process knows; of types with one name, the first.
fn write_schemas<W: Write>(context: &Context<'_>, out: &mut JsonWriter<W>) {
    out.key("markerSchema");
    out.begin_array();
    let own = [losses::schema(), late::schema(), markers::schema()];
    let known = context.snapshot.definitions.marker_types();
    let all = own.iter().chain(known.into_iter().map(|marker_type| &marker_type.schema));
    let mut names = HashSet::new();
    let is_first = |schema: &&MarkerSchema| names.insert(schema.name.clone());
    all.filter(is_first).for_each(|schema| schema::write_schema(schema, out));
    out.end_array();
}
