//! Markers that are known only when everything else has been written: which processes are not
//! complete, shown in the root's main thread because viewers do not show logs.

use std::io::Write;

use super::context::Context;
use super::markers::MarkerTable;
use crate::ids::ProcessId;
use crate::profile::json::JsonWriter;
use crate::schema::{Format, MarkerSchema};
use crate::time::Timestamp;

const TYPE_NAME: &str = "IncompleteProcess";
/// Name of these markers.
pub const MARKER_NAME: &str = "Incomplete process";

/// A process whose part is not what it would have been had the process written it itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteProcess {
    /// Its number.
    pub pid: ProcessId,
    /// Its shown name.
    pub name: String,
    /// Since when it is so: its end, or the capture.
    pub since: Timestamp,
    /// What is known, in words.
    pub verdict: String,
}

/// Asked for once, when all markers of the root's main thread have been written; may wait until the
/// answer is known.
#[derive(Clone, Copy)]
pub struct LateMarkers<'a>(pub &'a (dyn Fn() -> Vec<IncompleteProcess> + Sync));

impl std::fmt::Debug for LateMarkers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateMarkers").finish_non_exhaustive()
    }
}

/// How viewers show these markers.
pub fn schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table(TYPE_NAME)
        .all_labels("{marker.data.process}: {marker.data.verdict}")
        .key_label_format("process", "Process", Format::String)
        .key_label_format("pid", "Process number", Format::Pid)
        .key_label_format("verdict", "Verdict", Format::String)
}

/// Writes them all, each from when it holds to the capture.
pub(super) fn write<W: Write>(
    context: &Context<'_>,
    processes: &[IncompleteProcess],
    table: &mut MarkerTable<'_, '_, W>,
) {
    for process in processes {
        let times = (context.ns(process.since), context.capture_ns());
        table.write_own(MARKER_NAME, times, |out| write_payload(process, out));
    }
}

/// Writes the payload of one.
pub fn write_payload<W: Write>(process: &IncompleteProcess, out: &mut JsonWriter<W>) {
    out.begin_object();
    out.entry_str("type", TYPE_NAME);
    out.entry_str("process", &process.name);
    out.entry_str("pid", &process.pid.to_string());
    out.entry_str("verdict", &process.verdict);
    out.end_object();
}
