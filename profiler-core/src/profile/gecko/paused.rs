//! Paused ranges: when nothing was recorded, and why there is nothing.

use std::io::Write;

use super::context::Context;
use crate::profile::json::JsonWriter;

/// Writes the key `pausedRanges` with all ranges that the pool still knows.
pub(super) fn write<W: Write>(context: &Context<'_>, out: &mut JsonWriter<W>) {
    out.key("pausedRanges");
    out.begin_array();
    for pause in &context.snapshot.pauses {
        out.begin_object();
        out.entry_millis_ns("startTime", Some(context.ns(pause.start)));
        out.entry_millis_ns("endTime", pause.end.map(|end| context.ns(end)));
        out.entry_str("reason", "profiler-paused");
        out.end_object();
    }
    out.end_array();
}
