//! Markers of incomplete processes, shown in the root's main thread because viewers do not show
//! logs.

use std::io::Write;

use super::losses::OwnMarker;
use super::marker_rows::MarkerTimes;
use super::process::ProcessModel;
use profiler_core::ids::ProcessId;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::time::Timestamp;
use profiler_json::JsonWriter;

const TYPE_NAME: &str = "IncompleteProcess";

/// A process whose part differs from what the process would have written itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteProcess {
    /// Number of the process.
    pub pid: ProcessId,
    /// Its shown name.
    pub name: String,
    /// Since when it is incomplete: its end, or the capture; its start if it is not in the profile
    /// at all.
    pub since: Timestamp,
    /// Until when; `None`: until the capture.
    pub until: Option<Timestamp>,
    /// What is known about the process, in words.
    pub verdict: String,
}

/// How viewers show these markers.
pub(super) fn schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table(TYPE_NAME)
        .all_labels("{marker.data.process}: {marker.data.verdict}")
        .key_label_format("process", "Process", Format::String)
        .key_label_format("pid", "Process number", Format::Pid)
        .key_label_format("verdict", "Verdict", Format::String)
}

impl OwnMarker for IncompleteProcess {
    fn name(&self) -> &str {
        "Incomplete process"
    }

    /// From `since` to `until` or to the capture.
    fn times(&self, process: &ProcessModel<'_>) -> MarkerTimes {
        let until = self.until.map(|until| process.ns(until));
        let until = until.unwrap_or_else(|| process.capture_ns());
        process.interval_in_range(process.ns(self.since), until)
    }

    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("type", TYPE_NAME);
        out.entry_str("process", &self.name);
        out.entry_str("pid", &self.pid.to_string());
        out.entry_str("verdict", &self.verdict);
        out.end_object();
    }
}
