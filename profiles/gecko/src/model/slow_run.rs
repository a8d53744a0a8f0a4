//! Markers of the slow runs that an alert is about. The profile of an alert opens on them.

use std::io::Write;

use super::losses::OwnMarker;
use super::marker_rows::MarkerTimes;
use super::process::ProcessModel;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_json::JsonWriter;

const TYPE_NAME: &str = "SlowRun";

/// A run of a group that was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRunMarker {
    /// Name of the group, which is the marker's name.
    pub group: String,
    /// Kind of the group.
    pub kind: String,
    /// Name of its thread, if it is known.
    pub thread: Option<String>,
    /// Nanoseconds from the session's start to its begin.
    pub from_ns: i64,
    /// Nanoseconds from the session's start to its end.
    pub to_ns: i64,
}

/// How viewers show these markers.
pub(super) fn schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table(TYPE_NAME)
        .all_labels("slow run of the {marker.data.kind} {marker.data.group}")
        .key_label_format("group", "Group", Format::String)
        .key_label_format("kind", "Kind", Format::String)
        .key_label_format("duration", "Duration", Format::Duration)
}

impl OwnMarker for SlowRunMarker {
    fn name(&self) -> &str {
        &self.group
    }

    fn times(&self, _process: &ProcessModel<'_>) -> MarkerTimes {
        MarkerTimes::interval(self.from_ns, self.to_ns)
    }

    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("type", TYPE_NAME);
        out.entry_str("group", &self.group);
        out.entry_str("kind", &self.kind);
        out.entry_millis_ns("duration", Some(self.to_ns.saturating_sub(self.from_ns)));
        out.end_object();
    }
}
