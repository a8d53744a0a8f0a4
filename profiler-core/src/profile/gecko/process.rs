//! One process: its tables in order, its entries in one pass, its books at the end.
//!
//! The parent writes the root with [`ProcessPart::write_open`], then the key `processes` and
//! whatever else belongs there, then [`ProcessPart::close`]. Everyone else is written with
//! [`ProcessPart::write`].

use std::io::Write;

use super::context::Context;
use super::foreign::{OwnedChunk, Owners, Place, markers};
use super::late::LateMarkers;
use super::markers::MarkerTable;
use super::plan::MarkerPlans;
use super::thread::{self, ThreadHead};
use super::{counters, late, losses, meta, paused};
use crate::entry::MarkerEntry;
use crate::losses::EntryCounts;
use crate::profile::failure::{Failure, FailureLatch};
use crate::profile::json::JsonWriter;
use crate::profile::progress::{ProgressLogger, Proportion};
use crate::profile::spec::{ProcessRole, ProcessSummary, ProfileSpec, ShownRange};
use crate::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader, ReadError, Snapshot, ThreadInfo};
use crate::time::{SessionClock, Timestamp};

/// What the object of one process is written from.
#[derive(Debug)]
pub struct ProcessPart<'a, S> {
    /// Where the entries are.
    pub reader: &'a PoolReader<S>,
    /// Names, threads and books, taken from `reader`.
    pub snapshot: &'a Snapshot,
    /// The session's clock, the same for all processes of a profile.
    pub clock: SessionClock,
    /// What all parts of the capture share.
    pub spec: &'a ProfileSpec,
    /// Which process it is.
    pub role: &'a ProcessRole,
    /// When the process ended, if it did.
    pub ended: Option<Timestamp>,
    /// Markers for the main thread that are known only at the very end; the root's.
    pub late: Option<LateMarkers<'a>>,
    /// Where failures are reported, and found.
    pub latch: &'a FailureLatch,
}

/// Threads with their markers while they are written.
struct Threads<'a, S> {
    part: &'a ProcessPart<'a, S>,
    owners: Owners<'a>,
    buffer: ChunkBuffer,
    /// Entries written so far, by the thread that recorded them.
    delivered: Vec<u64>,
}

impl<S: ByteSource> ProcessPart<'_, S> {
    /// Writes the whole object of a process that has no children in the profile.
    ///
    /// # Errors
    /// The first failure that the latch knows; the output is useless then.
    pub fn write<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let summary = self.write_open(out, progress)?;
        out.key("processes");
        out.begin_array();
        out.end_array();
        self.close(out, summary.shown);
        Ok(summary)
    }

    /// Writes the object of a process, all but `processes` and `meta`, and leaves it open.
    ///
    /// # Errors
    /// The first failure that the latch knows; the output is useless then.
    pub fn write_open<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let begun = Timestamp::now();
        let context = self.context();
        out.begin_object();
        out.key("libs");
        out.raw("[]");
        let owners = self.read(Owners::find(self.reader, self.snapshot, |marker| self.is_wanted(marker)))?;
        let delivered = vec![0; self.snapshot.threads.len()];
        let mut threads = Threads { part: self, owners, buffer: ChunkBuffer::default(), delivered };
        let shown = threads.write(&context, out, progress.sub(5, 95, "markers"))?;
        let counts = threads.write_log(&context, out);
        counters::write(&context, out);
        paused::write(&context, out);
        self.latch.check()?;
        let number = u32::try_from(self.snapshot.threads.len()).unwrap_or(u32::MAX);
        let spent = context.ns(Timestamp::now()).saturating_sub(context.ns(begun));
        let writing_ns = u64::try_from(spent).unwrap_or(0);
        Ok(ProcessSummary { threads: number, counts, shown, writing_ns })
    }

    /// Ends an object that [`ProcessPart::write_open`] began. `shown` is the range of time that
    /// all processes span together, as their summaries say.
    pub fn close<W: Write>(&self, out: &mut JsonWriter<W>, shown: ShownRange) {
        meta::write(&self.context(), shown, out);
        out.end_object();
    }

    fn context(&self) -> Context<'_> {
        Context {
            snapshot: self.snapshot,
            spec: self.spec,
            role: self.role,
            clock: self.clock,
            converter: self.clock.converter(self.spec.later),
            ended: self.ended,
            plans: MarkerPlans::new(&self.snapshot.definitions, &self.spec.categories),
        }
    }

    fn read<T>(&self, result: Result<T, ReadError>) -> Result<T, Failure> {
        result.map_err(|error| {
            self.latch.fail(Failure::Data(error.to_string()));
            self.latch.failure().cloned().unwrap_or(Failure::Cancelled)
        })
    }

    fn is_wanted(&self, marker: &MarkerEntry<'_>) -> bool {
        self.spec.since.is_none_or(|since| marker.timing.last() >= since)
    }
}

impl<'a, S: ByteSource> Threads<'a, S> {
    fn write<W: Write>(
        &mut self,
        context: &Context<'_>,
        out: &mut JsonWriter<W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<ShownRange, Failure> {
        let threads = &self.part.snapshot.threads;
        let mut shown = ShownRange::default();
        out.key("threads");
        out.begin_array();
        if !threads.iter().any(|thread| thread.is_main) {
            thread::write(context, ThreadHead::missing_main(context), out, |_| Ok::<_, Failure>(()))?;
        }
        let mut order: Vec<(Place, &ThreadInfo)> = threads.iter().enumerate().collect();
        if self.part.late.is_some() {
            // The main thread last: its late markers may have to be waited for.
            order.sort_by_key(|(_, info)| info.is_main);
        }
        for (step, (place, info)) in order.into_iter().enumerate() {
            let progress = progress.step(step, threads.len());
            let fill = |table: &mut MarkerTable<'_, '_, W>| {
                let own = self.fill(place, table, progress)?;
                let delivered = own.saturating_add(self.owners.given(place));
                losses::write_marker(context, info, &losses::counts(info, delivered), table);
                if let Some(late) = self.part.late.filter(|_| info.is_main) {
                    late::write(context, &(late.0)(), table);
                }
                Ok::<_, Failure>(())
            };
            shown += thread::write(context, ThreadHead::of(info), out, fill)?;
        }
        out.end_array();
        Ok(shown)
    }

    /// Writes all markers of a thread: its own, and those that others recorded for it. Gives
    /// back how many were its own.
    fn fill<W: Write>(
        &mut self,
        place: Place,
        table: &mut MarkerTable<'_, '_, W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<u64, Failure> {
        let own =
            self.part.snapshot.threads.get(place).map(|info| info.chunks.as_slice()).unwrap_or_default();
        let own = own.iter().map(|chunk| (place, chunk));
        let chunks: Vec<OwnedChunk<'a>> = own.chain(self.owners.visits(place)).collect();
        let mut written_own = 0_u64;
        for (number, chunk) in chunks.iter().enumerate() {
            self.part.latch.check()?;
            if table.is_failed() {
                break;
            }
            let written = self.write_chunk(place, *chunk, table)?;
            written_own = written_own.saturating_add(if chunk.0 == place { written } else { 0 });
            let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
            progress.set(Proportion::of(wide(number), wide(chunks.len())), "markers");
        }
        Ok(written_own)
    }

    fn write_chunk<W: Write>(
        &mut self,
        place: Place,
        (recorder, chunk): OwnedChunk<'a>,
        table: &mut MarkerTable<'_, '_, W>,
    ) -> Result<u64, Failure> {
        let read = self.part.reader.read_chunk(chunk, &mut self.buffer);
        let ChunkRead::Entries(entries) = self.part.read(read)? else { return Ok(0) };
        let mut written = 0_u64;
        for marker in markers(entries) {
            if self.part.is_wanted(&marker) && self.owners.owner(recorder, &marker) == place {
                table.write(&marker);
                written = written.saturating_add(1);
            }
        }
        if let Some(delivered) = self.delivered.get_mut(recorder) {
            *delivered = delivered.saturating_add(written);
        }
        Ok(written)
    }

    fn write_log<W: Write>(&self, context: &Context<'_>, out: &mut JsonWriter<W>) -> EntryCounts {
        let threads = self.part.snapshot.threads.iter().enumerate();
        let books: Vec<_> =
            threads.map(|(place, info)| (info, losses::counts(info, self.delivered_by(place)))).collect();
        let mut total = self.part.snapshot.gone;
        books.iter().for_each(|(_, counts)| total += *counts);
        losses::write_log(context, &books, &total, out);
        total
    }

    fn delivered_by(&self, place: Place) -> u64 {
        self.delivered.get(place).copied().unwrap_or(0)
    }
}
