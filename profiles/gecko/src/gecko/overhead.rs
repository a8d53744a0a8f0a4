//! The costs of the sampler: the key `profilerOverhead`, one row per tick.
//!
//! Called by [`super::process_tables`]. Unlike all other times, these are in microseconds. A row
//! also has the time of the signal handlers since the previous row and the interval in force, if
//! the process measured them. Viewers ignore both.

use std::io::Write;

use super::table;
use profiler_core::internal::entry::periodic::OverheadEntry;
use profiler_json::JsonWriter;

const SCHEMA: &str = r#"{"time":0,"locking":1,"expiredMarkerCleaning":2,"counters":3,"threads":4,"handlers":5,"interval":6}"#;

/// Begins the table.
pub(super) fn begin<W: Write>(out: &mut JsonWriter<W>) {
    out.key("profilerOverhead");
    out.begin_object();
    table::begin("samples", SCHEMA, out);
}

/// Writes the row of a tick that began at `at_ns`. The cleaning of expired markers takes no time,
/// because markers do not expire.
pub(super) fn write_row<W: Write>(at_ns: i64, tick: &OverheadEntry, out: &mut JsonWriter<W>) {
    out.begin_array();
    write_micros(at_ns, out);
    for ns in [
        tick.locking_ns,
        0,
        tick.counters_ns,
        tick.threads_ns,
        tick.handlers_ns,
        tick.interval_ns,
    ] {
        write_micros(i64::try_from(ns).unwrap_or(i64::MAX), out);
    }
    out.end_array();
}

/// Ends the table.
pub(super) fn end<W: Write>(out: &mut JsonWriter<W>) {
    table::end(out);
    out.end_object();
}

/// Writes nanoseconds as microseconds: as the milliseconds of a thousand times as many nanoseconds.
fn write_micros<W: Write>(ns: i64, out: &mut JsonWriter<W>) {
    out.millis_ns(ns.saturating_mul(1_000));
}
