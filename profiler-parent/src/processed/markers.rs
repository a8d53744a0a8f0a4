//! The markers of one thread, column by column.
//!
//! A row is a name, two times, a phase, a category, and the payload with the stack as its `cause`.
//! Texts are stored in the string table that all threads share.

use std::io::{self, Write};
use std::path::Path;

use profiler_core::internal::entry::MarkerEntry;
use profiler_gecko::ShownRange;
use profiler_gecko::model::{
    MarkerSites, MarkerTimes, OpenSpans, OwnMarker, ProcessModel, TextTable, write_marker_time,
};
use profiler_json::{JsonWriter, StringId};

use super::strings::ProfileStrings;
use profiler_files::spill::{Column, column, end};

/// The columns of the markers of one thread, while markers are added.
#[derive(Debug)]
pub(super) struct MarkerColumns {
    name: Column,
    start: Column,
    end: Column,
    phase: Column,
    category: Column,
    data: Column,
    spans: OpenSpans,
    len: u64,
    shown: ShownRange,
}

impl MarkerColumns {
    /// No rows. A long column is in a file in `directory`.
    pub(super) fn begin(directory: &Path) -> Self {
        let column = || column(directory);
        Self {
            name: column(),
            start: column(),
            end: column(),
            phase: column(),
            category: column(),
            data: column(),
            spans: OpenSpans::default(),
            len: 0,
            shown: ShownRange::default(),
        }
    }

    /// Ends the table and writes it under the key `markers`. Returns the range of its times.
    pub(super) fn finish<W: Write>(self, out: &mut JsonWriter<W>) -> io::Result<ShownRange> {
        out.key("markers");
        out.begin_object();
        end(self.data, "data", out)?;
        end(self.name, "name", out)?;
        end(self.start, "startTime", out)?;
        end(self.end, "endTime", out)?;
        end(self.phase, "phase", out)?;
        end(self.category, "category", out)?;
        out.entry_u64("length", self.len);
        out.end_object();
        Ok(self.shown)
    }

    /// Adds a marker whose stack has the number `stack`. The start of a span is added with its end,
    /// or by [`Self::add_open_spans`].
    pub(super) fn add(
        &mut self,
        marker: &MarkerEntry<'_>,
        stack: Option<u32>,
        process: &ProcessModel<'_>,
        sites: &mut MarkerSites<'_>,
        strings: &mut ProfileStrings,
    ) {
        if !OpenSpans::may_join(marker) {
            return self.add_row(marker, stack, process, sites, strings);
        }
        let span = sites.resolve(marker, strings).span(marker);
        let mut spans = std::mem::take(&mut self.spans);
        spans.join(marker, span, |marker| {
            self.add_row(marker, None, process, sites, strings);
        });
        self.spans = spans;
    }

    /// Notes a marker that another thread has recorded. Called before the thread's own markers are
    /// added, and before [`Self::add`] gets the marker.
    pub(super) fn note_foreign(
        &mut self,
        marker: &MarkerEntry<'_>,
        sites: &mut MarkerSites<'_>,
        strings: &mut ProfileStrings,
    ) {
        if OpenSpans::may_join(marker) {
            let span = sites.resolve(marker, strings).span(marker);
            self.spans.note(marker, span);
        }
    }

    /// Adds the starts of the spans that have no end.
    pub(super) fn add_open_spans(
        &mut self,
        process: &ProcessModel<'_>,
        sites: &mut MarkerSites<'_>,
        strings: &mut ProfileStrings,
    ) {
        let open = std::mem::take(&mut self.spans);
        open.finish(|start| self.add_row(start, None, process, sites, strings));
    }

    fn add_row(
        &mut self,
        marker: &MarkerEntry<'_>,
        stack: Option<u32>,
        process: &ProcessModel<'_>,
        sites: &mut MarkerSites<'_>,
        strings: &mut ProfileStrings,
    ) {
        let row = sites.resolve(marker, strings);
        let times = MarkerTimes::of(marker.timing, |at| process.marker_ns(at));
        self.head(row.name, times, row.category);
        if marker.trace.is_some() {
            process.snapshot.definitions.note_contexts();
        }
        if !row.has_payload() && stack.is_none() && marker.trace.is_none() {
            return self.data.null();
        }
        self.data.begin_object();
        row.write_payload(marker, strings, &mut self.data);
        if let Some(stack) = stack {
            self.data.entry_object("cause", |out| {
                out.entry_millis_ns("time", Some(times.first()));
                out.entry_u64("stack", u64::from(stack));
            });
        }
        self.data.end_object();
    }

    /// Adds a marker that the profiler itself creates.
    pub(super) fn add_own<M: OwnMarker>(
        &mut self,
        marker: &M,
        process: &ProcessModel<'_>,
        strings: &mut ProfileStrings,
    ) {
        self.head(strings.own(marker.name()), marker.times(process), 0);
        marker.write_payload(&mut self.data);
    }

    fn head(&mut self, name: StringId, times: MarkerTimes, category: u64) {
        self.name.u64(u64::from(name.get()));
        write_marker_time(times.start, &mut self.shown, &mut self.start);
        write_marker_time(times.end, &mut self.shown, &mut self.end);
        self.phase.u64(times.phase);
        self.category.u64(category);
        self.len += 1;
    }
}
