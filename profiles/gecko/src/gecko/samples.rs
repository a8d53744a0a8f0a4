//! The sample table of one thread: its stack and its processor time at each sample.
//!
//! [`SampleTable`] writes each row at once. A row is `[stack, time, event delay, processor time]`;
//! there is no event queue, so the delay is always 0. Invariant: times do not go backwards, as
//! viewers require.

use std::io::Write;

use super::markers::MarkerTable;
use super::process::GeckoProcess;
use super::stacks::{StackId, StackPath, StackTable};
use super::table;
use crate::ShownRange;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_json::JsonWriter;

/// A row before it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleRow {
    pub(super) at_ns: i64,
    stack: Option<StackId>,
    cpu_ns: Option<u64>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct SampleTable<'a, 'w, W: Write> {
    process: &'a GeckoProcess<'a>,
    out: &'w mut JsonWriter<W>,
    stacks: StackTable,
    last_ns: i64,
    shown: ShownRange,
    has_contexts: bool,
}

impl<'a, 'w, W: Write> SampleTable<'a, 'w, W> {
    /// Begins the table: key, schema, and the array of rows.
    pub(super) fn begin(process: &'a GeckoProcess<'a>, out: &'w mut JsonWriter<W>) -> Self {
        table::begin(
            "samples",
            r#"{"stack":0,"time":1,"eventDelay":2,"threadCPUDelta":3}"#,
            out,
        );
        let stacks = StackTable::default();
        let shown = ShownRange::default();
        Self {
            process,
            out,
            stacks,
            last_ns: i64::MIN,
            shown,
            has_contexts: false,
        }
    }

    /// Whether a sample has a trace or a group.
    pub(super) const fn has_contexts(&self) -> bool {
        self.has_contexts
    }

    /// Whether the output has failed, so that writing more is useless.
    pub(super) const fn is_failed(&self) -> bool {
        self.out.is_failed()
    }

    /// The row of a sample. `path` holds the sample's stack.
    pub(super) fn row(&mut self, sample: &SampleEntry<'_>, path: &mut StackPath) -> SampleRow {
        let stack = path.intern(&mut self.stacks, sample.is_idle());
        self.has_contexts |= !sample.context.is_empty();
        SampleRow {
            at_ns: self.process.ns(sample.at),
            stack,
            cpu_ns: sample.cpu_ns,
        }
    }

    /// Writes a row. A row that is older than the previous one gets the time of the previous one.
    pub(super) fn write(&mut self, row: SampleRow) {
        self.last_ns = self.last_ns.max(row.at_ns);
        self.shown.include(self.last_ns);
        self.out.begin_array();
        self.out.u64_or_null(row.stack.map(StackId::get));
        self.out.millis_ns(self.last_ns);
        self.out.u64(0);
        self.out.u64_or_null(row.cpu_ns);
        self.out.end_array();
    }

    /// Ends the table, and begins the table of the thread's markers.
    pub(super) fn end(self) -> MarkerTable<'a, 'w, W> {
        table::end(self.out);
        MarkerTable::begin(self.process, self.out, self.stacks, self.shown)
    }
}
