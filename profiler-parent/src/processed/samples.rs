//! Writes the samples and allocations of one thread, column by column, from the rows of the first
//! pass.

use std::io::{self, Write};

use profiler_core::ids::ThreadId;
use profiler_core::time::Timestamp;
use profiler_gecko::ShownRange;
use profiler_gecko::model::ProcessModel;
use profiler_json::JsonWriter;

use super::rows::Rows;
use super::store::RowStore;
use super::symbolicated::Numbers;

/// The data that is needed to convert rows to columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger<'a> {
    pub(super) rows: &'a RowStore,
    pub(super) numbers: &'a Numbers,
    pub(super) process: &'a ProcessModel<'a>,
}

impl Ledger<'_> {
    fn ns(&self, raw: u64) -> i64 {
        self.process.ns(Timestamp::from_raw(raw))
    }

    fn stack<W: Write>(&self, plus_one: u64, out: &mut JsonWriter<W>) {
        out.u64_or_null(self.numbers.of_row(plus_one).map(u64::from));
    }

    /// Writes the key `samples`. Returns the range of their times.
    pub(super) fn samples<W: Write>(
        &self,
        samples: &Rows<4>,
        out: &mut JsonWriter<W>,
    ) -> io::Result<ShownRange> {
        let mut shown = ShownRange::default();
        out.key("samples");
        out.begin_object();
        samples.write_column(self.rows, "stack", out, |[_, _, stack, _], out| {
            self.stack(stack, out)
        })?;
        let mut before = 0;
        samples.write_column(self.rows, "timeDeltas", out, |[at, ..], out| {
            let ns = self.ns(at);
            shown.include(ns);
            out.millis_ns(ns.saturating_sub(before));
            before = ns;
        })?;
        let mut is_measured = false;
        samples.for_each(self.rows, |[_, cpu, ..]| is_measured |= cpu > 0)?;
        if is_measured {
            samples.write_column(self.rows, "threadCPUDelta", out, |[_, cpu, ..], out| {
                out.u64_or_null(cpu.checked_sub(1))
            })?;
        }
        self.weights(samples, out)?;
        out.entry_u64("length", samples.len());
        out.end_object();
        Ok(shown)
    }

    /// Writes the weight of each sample: the time before it that it stands for. Because weights are
    /// in milliseconds, the viewer's tables show times. The member `weightsAreTimeBefore` tells these
    /// profiles from imported ones, whose samples stand for the time after them. If the interval is
    /// not known, the weight is a number of intervals.
    fn weights<W: Write>(&self, samples: &Rows<4>, out: &mut JsonWriter<W>) -> io::Result<()> {
        if self.process.interval_ns() <= 0 {
            samples.write_column(self.rows, "weight", out, |[.., ticks], out| out.u64(ticks))?;
            out.entry_str("weightType", "samples");
            return Ok(());
        }
        samples.write_column(self.rows, "weight", out, |[.., weight], out| {
            out.millis_ns(i64::try_from(weight).unwrap_or(i64::MAX));
        })?;
        out.entry_str("weightType", "tracing-ms");
        out.entry_bool("weightsAreTimeBefore", true);
        Ok(())
    }

    /// Writes the key `nativeAllocations`, if there are any. Returns the range of their times.
    pub(super) fn allocations<W: Write>(
        &self,
        allocations: &Rows<4>,
        tid: ThreadId,
        out: &mut JsonWriter<W>,
    ) -> io::Result<ShownRange> {
        let mut shown = ShownRange::default();
        if allocations.is_empty() {
            return Ok(shown);
        }
        out.key("nativeAllocations");
        out.begin_object();
        allocations.write_column(self.rows, "time", out, |[at, ..], out| {
            shown.include(self.ns(at));
            out.millis_ns(self.ns(at));
        })?;
        allocations.write_column(self.rows, "weight", out, |[_, bytes, ..], out| {
            out.i64(bytes.cast_signed())
        })?;
        out.entry_str("weightType", "bytes");
        allocations.write_column(self.rows, "stack", out, |[.., stack], out| {
            self.stack(stack, out)
        })?;
        allocations.write_column(
            self.rows,
            "memoryAddress",
            out,
            |[_, _, address, _], out| out.u64(address),
        )?;
        allocations.write_column(self.rows, "threadId", out, |_, out| out.u64(tid.get()))?;
        out.entry_u64("length", allocations.len());
        out.end_object();
        Ok(shown)
    }
}
