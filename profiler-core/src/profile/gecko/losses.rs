//! What is missing, and why: the exact books of every thread.
//!
//! `profilingLog` has all of them, under the process's number. A thread that lost entries also
//! gets a marker over the time for which they are missing, because viewers do not show logs.

use std::io::Write;

use super::context::Context;
use super::markers::MarkerTable;
use crate::losses::{DropReason, EntryCounts};
use crate::profile::json::JsonWriter;
use crate::reader::ThreadInfo;
use crate::schema::{Format, MarkerSchema};

const TYPE_NAME: &str = "ProfilerLosses";
/// Name of the marker of lost entries.
pub const MARKER_NAME: &str = "Entries lost";

/// How viewers show the marker of lost entries.
pub fn schema() -> MarkerSchema {
    let schema = MarkerSchema::in_chart_and_table(TYPE_NAME)
        .all_labels("{marker.data.evicted} evicted, {marker.data.dropped} dropped")
        .key_label_format("evicted", "Overwritten by newer entries or older than the window", Format::Integer)
        .key_label_format("dropped", "Not recorded", Format::Integer)
        .key_label_format("unfinished", "Being written at the end", Format::Integer);
    DropReason::ALL.into_iter().fold(schema, |schema, reason| {
        let label = format!("Not recorded: {}", reason.name());
        schema.key_label_format(reason.name(), label, Format::Integer)
    })
}

/// The books of a thread of which `delivered` entries are in the profile.
pub fn counts(thread: &ThreadInfo, delivered: u64) -> EntryCounts {
    EntryCounts {
        delivered,
        evicted: thread.committed().saturating_sub(delivered),
        dropped: thread.dropped,
        unfinished: u64::from(thread.is_unfinished()),
    }
}

/// Writes the marker of what `thread` lost, if it lost anything: from when it could first
/// record to its first entry that is left, or to the capture.
pub(super) fn write_marker<W: Write>(
    context: &Context<'_>,
    thread: &ThreadInfo,
    counts: &EntryCounts,
    table: &mut MarkerTable<'_, '_, W>,
) {
    if counts.recorded() == counts.delivered {
        return;
    }
    let start = context.ns(thread.registered.max(context.snapshot.header.recording_start));
    let first_left = thread.chunks.first().filter(|_| counts.dropped.total() == 0);
    let end = first_left.map_or_else(|| context.capture_ns(), |chunk| context.ns(chunk.start));
    table.write_own(MARKER_NAME, (start, end), |out| write_payload(counts, out));
}

/// Writes the key `profilingLog`: per thread, of threads that are gone, and in total.
pub(super) fn write_log<W: Write>(
    context: &Context<'_>,
    threads: &[(&ThreadInfo, EntryCounts)],
    total: &EntryCounts,
    out: &mut JsonWriter<W>,
) {
    out.key("profilingLog");
    out.begin_object();
    out.key(&context.role.pid.to_string());
    out.begin_object();
    out.entry_millis_ns("profilingLogBegin_TSms", Some(context.recording_start_ns()));
    out.entry_millis_ns("profilingLogEnd_TSms", Some(context.capture_ns()));
    out.key("threads");
    out.begin_array();
    for (thread, counts) in threads {
        out.begin_object();
        out.entry_str("name", &thread.name);
        out.entry_u64("tid", thread.tid.get());
        write_books(counts, out);
        out.end_object();
    }
    out.end_array();
    write_sum("endedThreads", &context.snapshot.gone, out);
    write_sum("total", total, out);
    write_notices(context.snapshot.definitions.notices(), out);
    out.end_object();
    out.end_object();
}

/// What is missing from the process's profile besides entries, in words.
pub(super) fn write_notices<W: Write>(notices: &[String], out: &mut JsonWriter<W>) {
    if notices.is_empty() {
        return;
    }
    out.key("notices");
    out.begin_array();
    notices.iter().for_each(|notice| out.string(notice));
    out.end_array();
}

/// Writes the payload of the marker of lost entries.
pub fn write_payload<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("type", TYPE_NAME);
    write_numbers(counts, out);
    out.end_object();
}

fn write_sum<W: Write>(key: &str, counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.key(key);
    out.begin_object();
    write_books(counts, out);
    out.end_object();
}

/// Writes where entries went, as keys of an object.
pub fn write_books<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.entry_u64("recorded", counts.recorded());
    out.entry_u64("delivered", counts.delivered);
    write_numbers(counts, out);
}

/// What was lost: the sum of all drops and, one by one, the reasons that occurred.
fn write_numbers<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.entry_u64("evicted", counts.evicted);
    out.entry_u64("dropped", counts.dropped.total());
    out.entry_u64("unfinished", counts.unfinished);
    counts.dropped.iter().for_each(|(reason, count)| out.entry_u64(reason.name(), count));
}
