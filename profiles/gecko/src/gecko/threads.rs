//! The threads of one process with all their entries, and the counts of what was written.
//!
//! Used by [`super::process`]. Each thread is written in two passes, samples and markers. These are
//! in different chunks (the sampler's, and the thread's own), so almost every chunk is read in one
//! of the passes only. Stacks, frames and texts come last, after all rows that use them. All tables
//! have all columns of the declared version, which viewers look up by name. Entries count as
//! delivered once they are written, for the thread that recorded them.

use std::io::Write;

use super::chunk_owners::{ChunkOwners, OwnedChunk};
use super::levels::is_shown_as_markers;
use super::markers::MarkerTable;
use super::periodic::Periodic;
use super::process::GeckoProcess;
use super::process_tables::write_levels;
use super::samples::{SampleRow, SampleTable};
use super::stacks::StackPath;
use super::{ProcessPart, allocations};
use crate::ShownRange;
use crate::failure::Failure;
use crate::model::{Delivery, LostEntries, Place, ThreadHead, write_log};
use crate::progress::{ProgressLogger, Proportion};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, Entries, ThreadInfo};
use profiler_core::session::EntryCounts;
use profiler_json::JsonWriter;

/// The state of writing the threads of one process.
#[derive(Debug)]
pub(super) struct Threads<'a, S> {
    pub(super) part: &'a ProcessPart<'a, S>,
    pub(super) owners: ChunkOwners<'a>,
    pub(super) periodic: Periodic<'a>,
    pub(super) buffer: ChunkBuffer,
    /// Entries written so far, and entries outside of the range, by the thread that recorded them.
    deliveries: Vec<Delivery>,
}

impl<'a, S: ByteSource> Threads<'a, S> {
    pub(super) fn new(
        part: &'a ProcessPart<'a, S>,
        process: &GeckoProcess<'_>,
    ) -> Result<Self, Failure> {
        let mut periodic = Periodic::new(&part.snapshot.counters);
        let is_wanted = |at| process.is_wanted(at);
        let owners = part.read(ChunkOwners::find(
            part.reader,
            part.snapshot,
            is_wanted,
            &mut periodic,
        ))?;
        let not_shown = (0..part.snapshot.threads.len()).map(|place| Delivery {
            delivered: 0,
            outside: owners.outside(place).unwrap_or(0),
        });
        let deliveries = not_shown.collect();
        Ok(Self {
            part,
            owners,
            periodic,
            buffer: ChunkBuffer::default(),
            deliveries,
        })
    }

    /// Writes the key `threads`. Returns the number of threads and their time range.
    pub(super) fn write<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        out: &mut JsonWriter<W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<(u32, ShownRange), Failure> {
        let threads = &self.part.snapshot.threads;
        let mut shown = ShownRange::default();
        out.key("threads");
        out.begin_array();
        let counters = &process.model.snapshot.counters;
        let has_levels = counters
            .iter()
            .any(|one| is_shown_as_markers(one, counters));
        if process.model.lacks_main() && !has_levels {
            end(begin(process, ThreadHead::missing_main(&process.model), out).end());
        }
        let rows = threads
            .iter()
            .enumerate()
            .filter(|(place, _)| self.owners.is_shown(*place));
        let sampled_only: Vec<_> = self
            .owners
            .sampled_only()
            .map(|(place, info)| (place, info.clone()))
            .collect();
        let mut order: Vec<(Place, &ThreadInfo)> = rows.collect();
        order.extend(sampled_only.iter().map(|(place, info)| (*place, info)));
        if self.part.late.is_some() || has_levels {
            // The main thread comes last, because getting its late markers may block, and because
            // the chunks with the values of levels are known when all other threads are written.
            order.sort_by_key(|(_, info)| info.is_main);
        }
        let number = order.len();
        for (step, (place, info)) in order.into_iter().enumerate() {
            shown += self.write_thread(process, place, info, out, progress.step(step, number))?;
        }
        if process.model.lacks_main() && has_levels {
            let mut markers = begin(process, ThreadHead::missing_main(&process.model), out).end();
            write_levels(process, self, &mut markers)?;
            shown += end(markers);
        }
        out.end_array();
        Ok((u32::try_from(number).unwrap_or(u32::MAX), shown))
    }

    /// Writes the key `threads` with the late markers only: with no thread if there are none.
    pub(super) fn write_late<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        out: &mut JsonWriter<W>,
        _progress: ProgressLogger<'_>,
    ) -> Result<(u32, ShownRange), Failure> {
        let late = self.part.late.map_or_else(Vec::new, |late| (late.0)());
        out.key("threads");
        out.begin_array();
        let mut shown = ShownRange::default();
        if !late.is_empty() {
            let mut markers = begin(process, ThreadHead::missing_main(&process.model), out).end();
            late.iter()
                .for_each(|incomplete| markers.write_own(incomplete));
            shown += end(markers);
        }
        out.end_array();
        Ok((u32::from(!late.is_empty()), shown))
    }

    fn write_thread<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        info: &ThreadInfo,
        out: &mut JsonWriter<W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<ShownRange, Failure> {
        let mut samples = begin(process, ThreadHead::of(info), out);
        let mut own = self.write_samples(
            process,
            place,
            info,
            &mut samples,
            progress.sub(0, 50, "samples"),
        )?;
        let has_contexts = samples.has_contexts();
        let mut markers = samples.end();
        if has_contexts {
            self.write_contexts(process, place, info, &mut markers)?;
        }
        own += self.write_markers(
            process,
            place,
            &mut markers,
            progress.sub(50, 100, "markers"),
        )?;
        let delivery = Delivery {
            delivered: own.saturating_add(self.owners.given(place)),
            outside: self.deliveries.get(place).map_or(0, |own| own.outside),
        };
        LostEntries::of(info, delivery, &process.model)
            .iter()
            .for_each(|lost| markers.write_own(lost));
        if info.is_main {
            write_levels(process, self, &mut markers)?;
        }
        if let Some(late) = self.part.late.filter(|_| info.is_main) {
            (late.0)()
                .iter()
                .for_each(|incomplete| markers.write_own(incomplete));
        }
        Ok(end(markers))
    }

    /// Writes all samples of a thread; returns how many the thread recorded itself. Samples of one
    /// recorder are in order of time; samples of several recorders are sorted first.
    fn write_samples<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        info: &ThreadInfo,
        table: &mut SampleTable<'_, '_, W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<u64, Failure> {
        let chunks = self.owners.sample_chunks(place).to_vec();
        let is_one = chunks
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.recorder == b.recorder));
        let mut rows: Vec<SampleRow> = Vec::new();
        let mut path = StackPath::default();
        let mut own = 0_u64;
        for (
            number,
            OwnedChunk {
                recorder,
                info: chunk,
            },
        ) in chunks.iter().enumerate()
        {
            self.part.latch.check()?;
            if table.is_failed() {
                break;
            }
            let Some(entries) = read(self.part, &mut self.buffer, chunk)? else {
                continue;
            };
            let mut written = 0_u64;
            path.begin_chunk();
            for entry in entries {
                let Entry::Sample(sample) = entry else {
                    continue;
                };
                if sample
                    .foreign
                    .map_or(*recorder == place, |tid| tid == info.tid)
                {
                    path.follow(&sample);
                    if process.is_wanted(sample.at)
                        && self.owners.threads.of_sample(*recorder, &sample) == Some(place)
                    {
                        let row = table.row(&sample, &mut path);
                        if is_one {
                            table.write(row)
                        } else {
                            rows.push(row)
                        }
                        written = written.saturating_add(1);
                    }
                }
            }
            self.count(*recorder, written);
            own = own.saturating_add(if *recorder == place { written } else { 0 });
            progress.set(proportion(number, chunks.len()), "samples");
        }
        rows.sort_by_key(|row| row.at_ns);
        rows.into_iter().for_each(|row| table.write(row));
        Ok(own)
    }

    /// Writes all markers and allocations of a thread: its own, and those that other threads
    /// recorded for it. Returns how many entries the thread recorded itself.
    fn write_markers<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        table: &mut MarkerTable<'_, '_, W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<u64, Failure> {
        let own = self
            .part
            .snapshot
            .threads
            .get(place)
            .map(|info| info.chunks.as_slice())
            .unwrap_or_default();
        let own = own.iter().map(|info| OwnedChunk {
            recorder: place,
            info,
        });
        let chunks: Vec<OwnedChunk<'a>> = own
            .chain(self.owners.marker_chunks(place).iter().copied())
            .collect();
        self.note_foreign_markers(process, place, table)?;
        let mut written_own = 0_u64;
        for (number, chunk) in chunks.iter().enumerate() {
            self.part.latch.check()?;
            if table.is_failed() {
                break;
            }
            let (written, others) = self.write_chunk(process, place, *chunk, table)?;
            self.count(chunk.recorder, written);
            let own = if chunk.recorder == place {
                written.saturating_add(others)
            } else {
                0
            };
            written_own = written_own.saturating_add(own);
            progress.set(proportion(number, chunks.len()), "markers");
        }
        Ok(written_own)
    }

    /// Lets the table note the markers that other threads have recorded for a thread.
    fn note_foreign_markers<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        table: &mut MarkerTable<'_, '_, W>,
    ) -> Result<(), Failure> {
        for chunk in self.owners.marker_chunks(place) {
            let Some(entries) = read(self.part, &mut self.buffer, chunk.info)? else {
                continue;
            };
            for entry in entries {
                if let Entry::Marker(marker) = entry
                    && process.is_wanted(marker.timing.last())
                    && self.owners.threads.of_marker(chunk.recorder, &marker) == place
                {
                    table.note_foreign(&marker);
                }
            }
        }
        Ok(())
    }

    /// Writes the entries of a chunk that belong to the table. Returns how many were written, and
    /// how many are left for the process's tables.
    fn write_chunk<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        owned: OwnedChunk<'a>,
        table: &mut MarkerTable<'_, '_, W>,
    ) -> Result<(u64, u64), Failure> {
        let recorder = owned.recorder;
        let Some(entries) = read(self.part, &mut self.buffer, owned.info)? else {
            return Ok((0, 0));
        };
        let tid = self
            .part
            .snapshot
            .threads
            .get(recorder)
            .map(|info| info.tid)
            .unwrap_or_default();
        let mut written = 0_u64;
        let mut others = 0_u64;
        let mut outside = 0_u64;
        for entry in entries {
            let last = entry.last();
            if !last.is_some_and(|last| process.is_wanted(last)) {
                outside = outside.saturating_add(u64::from(last.is_some()));
                continue;
            }
            match entry {
                Entry::Marker(marker)
                    if self.owners.threads.of_marker(recorder, &marker) == place =>
                {
                    table.write(&marker, tid)
                }
                Entry::Allocation(allocation) if recorder == place => {
                    allocations::write(table, tid, &allocation)
                }
                Entry::Trace(_) if recorder == place => {}
                entry => {
                    let is_periodic = recorder == place && self.periodic.note(owned, &entry);
                    others = others.saturating_add(u64::from(is_periodic));
                    continue;
                }
            }
            written = written.saturating_add(1);
        }
        let own = self
            .deliveries
            .get_mut(recorder)
            .filter(|_| recorder == place);
        if let Some(own) = own {
            own.outside = own.outside.saturating_add(outside);
        }
        Ok((written, others))
    }

    /// Calls `each` with all entries of a chunk that belong to the profile.
    pub(super) fn for_each_entry(
        &mut self,
        process: &GeckoProcess<'_>,
        chunk: OwnedChunk<'a>,
        mut each: impl FnMut(&Entry<'_>),
    ) -> Result<(), Failure> {
        self.part.latch.check()?;
        let Some(entries) = read(self.part, &mut self.buffer, chunk.info)? else {
            return Ok(());
        };
        let wanted =
            entries.filter(|entry| entry.last().is_some_and(|last| process.is_wanted(last)));
        wanted.for_each(|entry| each(&entry));
        Ok(())
    }

    /// Counts entries that were written, for the thread that recorded them.
    pub(super) fn count(&mut self, recorder: Place, written: u64) {
        if let Some(own) = self.deliveries.get_mut(recorder) {
            own.delivered = own.delivered.saturating_add(written);
        }
    }

    /// Writes the key `profilingLog`; returns the sum of all counts.
    pub(super) fn write_log<W: Write>(
        &self,
        process: &GeckoProcess<'_>,
        out: &mut JsonWriter<W>,
    ) -> EntryCounts {
        let pid = process.model.role.pid.to_string();
        let notices = process.model.snapshot.definitions.notices();
        out.key("profilingLog");
        out.begin_object();
        let total = write_log(&process.model, &pid, &self.deliveries, notices, out);
        out.end_object();
        total
    }
}

/// Begins a thread; its samples come first.
fn begin<'a, 'w, W: Write>(
    process: &'a GeckoProcess<'a>,
    head: ThreadHead<'_>,
    out: &'w mut JsonWriter<W>,
) -> SampleTable<'a, 'w, W> {
    out.begin_object();
    out.entry_str("name", head.name);
    ThreadHead::write_process(&process.model, out);
    out.entry_u64("pid", u64::from(process.model.role.pid.get()));
    out.entry_u64("tid", head.tid.get());
    head.write_lifetime(&process.model, out);
    SampleTable::begin(process, out)
}

/// Ends a thread whose rows are all written; returns their time range.
fn end<W: Write>(markers: MarkerTable<'_, '_, W>) -> ShownRange {
    let (shown, out) = markers.end();
    out.end_object();
    shown
}

/// The entries of a chunk; `None` if it was evicted meanwhile.
pub(super) fn read<'b, S: ByteSource>(
    part: &ProcessPart<'_, S>,
    buffer: &'b mut ChunkBuffer,
    chunk: &profiler_core::internal::reader::ChunkInfo,
) -> Result<Option<Entries<'b>>, Failure> {
    part.read(part.reader.read_chunk(chunk, buffer))
}

fn proportion(part: usize, whole: usize) -> Proportion {
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Proportion::new(wide(part), wide(whole))
}
