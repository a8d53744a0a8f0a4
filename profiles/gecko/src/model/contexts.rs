//! What threads worked for when samples were taken: the application's trace, and the innermost
//! performance group.
//!
//! Viewers know no column for it. So each run of samples of a thread with the same context is an
//! interval marker, from the first of these samples to the last. Both formats write the same
//! markers. Exports and `profiler info` find the context of a sample by its time: the intervals of
//! a thread do not overlap, and each of its samples with a context is in one of them.
//!
//! A marker of the application has its trace in two fields of its payload.

use std::io::Write;

use super::losses::OwnMarker;
use super::marker_rows::MarkerTimes;
use super::process::ProcessModel;
use profiler_core::internal::entry::trace::SampleContext;
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema, SchemaRow};
use profiler_core::trace::TraceContext;
use profiler_json::JsonWriter;
use profiler_json::span_types::{CONTEXT_TYPE, SPAN_ID_KEY, TRACE_ID_KEY};

/// How far an interval reaches beyond its samples, so that a reader that rounds times finds them in
/// it; at most half of the way to the next sample with another context.
const MARGIN_NS: i64 = 50;

/// A run of samples with the same context.
#[derive(Clone, Debug)]
pub struct ContextMarker<'a> {
    trace: Option<TraceContext>,
    group: Option<&'a str>,
    from_ns: i64,
    to_ns: i64,
}

/// Joins the samples of one thread to runs. Its samples are added in the order of the sample table.
/// As there, a sample that is older than the previous one gets the time of the previous one.
#[derive(Debug, Default)]
pub struct ContextRuns {
    /// The present run, and where its interval begins.
    open: Option<(SampleContext, i64)>,
    /// The time of the last sample.
    last_ns: Option<i64>,
}

/// The margin between two samples with different contexts.
fn margin_between(before_ns: i64, after_ns: i64) -> i64 {
    (after_ns.saturating_sub(before_ns) / 2).clamp(0, MARGIN_NS)
}

impl ContextRuns {
    /// Adds a sample. Returns the run that it ends.
    pub fn add<'a>(
        &mut self,
        at_ns: i64,
        context: SampleContext,
        process: &ProcessModel<'a>,
    ) -> Option<ContextMarker<'a>> {
        let last_ns = self.last_ns;
        let at_ns = last_ns.map_or(at_ns, |last_ns| last_ns.max(at_ns));
        if self.open.is_some_and(|(open, _)| open == context) {
            self.last_ns = Some(at_ns);
            return None;
        }
        let margin = last_ns.map_or(MARGIN_NS, |last_ns| margin_between(last_ns, at_ns));
        let ended = self.end(margin, process);
        let from_ns = at_ns.saturating_sub(margin);
        self.open = (!context.is_empty()).then_some((context, from_ns));
        self.last_ns = Some(at_ns);
        ended
    }

    /// The last run.
    pub fn finish<'a>(&mut self, process: &ProcessModel<'a>) -> Option<ContextMarker<'a>> {
        self.end(MARGIN_NS, process)
    }

    fn end<'a>(&mut self, margin: i64, process: &ProcessModel<'a>) -> Option<ContextMarker<'a>> {
        let ((context, from_ns), to_ns) = (self.open.take()?, self.last_ns?);
        let definitions = &process.snapshot.definitions;
        definitions.note_contexts();
        let marker = ContextMarker {
            trace: context.trace,
            group: context.group.and_then(|group| definitions.group(group)),
            from_ns,
            to_ns: to_ns.saturating_add(margin),
        };
        (marker.trace.is_some() || marker.group.is_some()).then_some(marker)
    }
}

impl OwnMarker for ContextMarker<'_> {
    fn name(&self) -> &str {
        "Context"
    }

    fn times(&self, _process: &ProcessModel<'_>) -> MarkerTimes {
        MarkerTimes::interval(self.from_ns, self.to_ns)
    }

    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("type", CONTEXT_TYPE);
        if let Some(trace) = self.trace {
            write_trace(trace, out);
        }
        out.entry_str_if("group", self.group);
        out.end_object();
    }
}

/// Writes the fields of a trace into a payload.
pub(super) fn write_trace<W: Write>(trace: TraceContext, out: &mut JsonWriter<W>) {
    out.entry_str(TRACE_ID_KEY, &format!("{:032x}", trace.trace_id()));
    out.entry_str(SPAN_ID_KEY, &format!("{:016x}", trace.span_id()));
}

/// How viewers show the runs.
pub(super) fn schema() -> MarkerSchema {
    let schema = MarkerSchema::in_chart_and_table(CONTEXT_TYPE)
        .all_labels("{marker.data.group} {marker.data.traceId}")
        .key_label_format("group", "Group", Format::String);
    with_trace(&schema)
}

/// A schema with the fields of a trace, unless the type has fields of these names.
pub(super) fn with_trace(schema: &MarkerSchema) -> MarkerSchema {
    if has_trace_keys(schema) {
        return schema.clone();
    }
    let field = |key, label| MarkerField::new(key, Format::String).label(label);
    let schema = schema.clone().field(field(TRACE_ID_KEY, "Trace"));
    schema.field(field(SPAN_ID_KEY, "Span"))
}

/// Whether a type has fields of its own with the names of those of a trace.
pub(super) fn has_trace_keys(schema: &MarkerSchema) -> bool {
    schema.rows.iter().any(|row| {
        let SchemaRow::Field(field) = row else {
            return false;
        };
        is_trace_key(&field.key)
    })
}

/// Whether a field has the name of one of a trace.
pub(super) fn is_trace_key(key: &str) -> bool {
    [TRACE_ID_KEY, SPAN_ID_KEY].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_never_reaches_the_samples_of_the_next_one() {
        let margins = [0, 1, 2, 40, 100, 1_000_000].map(|after| margin_between(0, after));
        assert_eq!(margins, [0, 0, 1, 20, 50, 50]);
    }
}
