//! The marker table of one thread.
//!
//! [`MarkerTable`] writes each row at once and keeps only the texts and stacks that the rows use. A
//! row is `[name, start, end, phase, category]`, with the payload as sixth column if there is one.

use std::io::Write;

use super::process::GeckoProcess;
use super::stacks::StackTable;
use super::table;
use crate::ShownRange;
use crate::model::{MarkerSites, MarkerTimes, OpenSpans, OwnMarker, SpanKey, write_marker_time};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::stack::Stack;
use profiler_core::internal::entry::{MarkerEntry, Timing};
use profiler_core::time::Timestamp;
use profiler_json::JsonWriter;
use profiler_json::strings::StringTable;

const SCHEMA: &str = r#"{"name":0,"startTime":1,"endTime":2,"phase":3,"category":4,"data":5}"#;

/// Writes the marker table of one thread; see the [module](self).
#[derive(Debug)]
pub(super) struct MarkerTable<'a, 'w, W: Write> {
    process: &'a GeckoProcess<'a>,
    out: &'w mut JsonWriter<W>,
    strings: StringTable,
    stacks: StackTable,
    sites: MarkerSites<'a>,
    spans: OpenSpans,
    shown: ShownRange,
}

impl<'a, 'w, W: Write> MarkerTable<'a, 'w, W> {
    /// Begins the table, up to its rows. `stacks` has the stacks of the thread's samples, and
    /// `shown` is the time range of these samples.
    pub(super) fn begin(
        process: &'a GeckoProcess<'a>,
        out: &'w mut JsonWriter<W>,
        stacks: StackTable,
        shown: ShownRange,
    ) -> Self {
        table::begin("markers", SCHEMA, out);
        let sites = MarkerSites::new(&process.plans);
        Self {
            process,
            out,
            strings: StringTable::new(),
            stacks,
            sites,
            spans: OpenSpans::default(),
            shown,
        }
    }

    /// Whether the output has failed, so that writing more is useless.
    pub(super) const fn is_failed(&self) -> bool {
        self.out.is_failed()
    }

    /// Ends the table, and writes the tables that its rows and the samples refer to. Returns the
    /// time range of all rows and samples, and the output.
    pub(super) fn end(mut self) -> (ShownRange, &'w mut JsonWriter<W>) {
        let open = std::mem::take(&mut self.spans);
        // The starts that are kept have no stack, so it does not matter who recorded them.
        open.finish(|start| self.write_row(start, ThreadId::default()));
        table::end(self.out);
        self.stacks.write(self.process, &mut self.strings, self.out);
        self.out.key("stringTable");
        self.strings.write_json(self.out);
        (self.shown, self.out)
    }

    /// Writes a marker that the thread `recorder` recorded. The start of a span is written with its
    /// end, or when the table ends.
    pub(super) fn write(&mut self, marker: &MarkerEntry<'_>, recorder: ThreadId) {
        if !OpenSpans::may_join(marker) {
            return self.write_row(marker, recorder);
        }
        let span = self.span_of(marker);
        let mut spans = std::mem::take(&mut self.spans);
        spans.join(marker, span, |marker| self.write_row(marker, recorder));
        self.spans = spans;
    }

    /// Notes a marker that another thread has recorded. Called before the thread's own markers are
    /// written, and before [`Self::write`] gets the marker.
    pub(super) fn note_foreign(&mut self, marker: &MarkerEntry<'_>) {
        if OpenSpans::may_join(marker) {
            let span = self.span_of(marker);
            self.spans.note(marker, span);
        }
    }

    fn span_of(&mut self, marker: &MarkerEntry<'_>) -> Option<SpanKey> {
        let row = self.sites.resolve(marker, &mut self.strings);
        row.span(marker)
    }

    fn write_row(&mut self, marker: &MarkerEntry<'_>, recorder: ThreadId) {
        let row = self.sites.resolve(marker, &mut self.strings);
        self.begin_row(
            u64::from(row.name.get()),
            self.times(marker.timing),
            row.category,
        );
        if marker.trace.is_some() {
            self.process.model.snapshot.definitions.note_contexts();
        }
        if row.has_payload() || !marker.stack.is_empty() || marker.trace.is_some() {
            self.out.begin_object();
            row.write_payload(marker, &mut self.strings, self.out);
            let elsewhere = marker.foreign.map(|_| recorder);
            self.write_stack(marker.stack, marker.timing.last(), elsewhere);
            self.out.end_object();
        }
        self.out.end_array();
    }

    /// Writes a marker that the profiler adds.
    pub(super) fn write_own<M: OwnMarker>(&mut self, marker: &M) {
        let name = self.strings.intern(marker.name());
        self.begin_row(u64::from(name.get()), marker.times(&self.process.model), 0);
        marker.write_payload(self.out);
        self.out.end_array();
    }

    /// Writes an instant in the default category. `payload` writes its payload.
    pub(super) fn write_instant(
        &mut self,
        name: &str,
        at: Timestamp,
        payload: impl FnOnce(&mut Self),
    ) {
        let name = self.strings.intern(name);
        self.begin_row(u64::from(name.get()), self.times(Timing::Instant(at)), 0);
        payload(self);
        self.out.end_array();
    }

    fn begin_row(&mut self, name: u64, times: MarkerTimes, category: u64) {
        self.out.begin_array();
        self.out.u64(name);
        write_marker_time(times.start, &mut self.shown, self.out);
        write_marker_time(times.end, &mut self.shown, self.out);
        self.out.u64(times.phase);
        self.out.u64(category);
    }

    fn times(&self, timing: Timing) -> MarkerTimes {
        MarkerTimes::of(timing, |at| self.process.model.marker_ns(at))
    }

    /// The output, for payloads that other modules write.
    pub(super) const fn out(&mut self) -> &mut JsonWriter<W> {
        self.out
    }

    /// Writes the stack of a marker, if it has one, into its payload. `thread` is the thread that
    /// took the stack, if that is not the marker's thread.
    pub(super) fn write_stack(
        &mut self,
        stack: Stack<'_>,
        at: Timestamp,
        thread: Option<ThreadId>,
    ) {
        let Some(stack) = self.stacks.of(stack) else {
            return;
        };
        self.out.key("stack");
        self.out.begin_object();
        if let Some(thread) = thread {
            self.out.entry_u64("tid", thread.get());
        }
        table::begin("samples", r#"{"stack":0,"time":1}"#, self.out);
        self.out.begin_array();
        self.out.u64(stack.get());
        self.out.millis_ns(self.process.ns(at));
        self.out.end_array();
        table::end(self.out);
        self.out.end_object();
    }
}
