//! Writes one process of the profile: its threads and its log.

use std::io::{self, Write};

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::trace::SampleContext;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, PoolReader, ThreadInfo};
use profiler_core::session::EntryCounts;
use profiler_core::time::Timestamp;
use profiler_gecko::ShownRange;
use profiler_gecko::frame_names::thread_without_row;
use profiler_gecko::model::{
    ContextRuns, Delivery, IncompleteProcess, LostEntries, MarkerPlans, MarkerSites, Place,
    ProcessModel, ThreadHead, write_log,
};
use profiler_json::JsonWriter;

use super::first_pass::{ProfileTables, SortedProcess};
use super::frames::{KnownDefinitions, Translation};
use super::markers::MarkerColumns;
use super::samples::Ledger;
use super::slow_runs::PlacedRuns;
use super::sorted_thread::SortedThread;
use super::stacks::{NodeId, PathCache, StackKind};
use super::symbolicated::Numbers;
use super::thread;
use super::window::Window;

/// A process that is written.
#[derive(Debug)]
pub(super) struct WrittenProcess<'a> {
    pub(super) model: ProcessModel<'a>,
    pub(super) sorted: &'a SortedProcess,
    /// Its process id in the profile, which is unique there.
    pub(super) pid: &'a str,
    pub(super) window: Window,
    /// Slow runs to be shown as markers.
    pub(super) slow_runs: &'a PlacedRuns,
}

/// The result of writing the threads of a process.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// What the profile contains of the entries of each thread.
    deliveries: Vec<Delivery>,
    /// Index in the profile of the first thread, which is the main thread.
    pub(super) main_thread: u64,
    pub(super) threads: u32,
    pub(super) shown: ShownRange,
}

impl WrittenProcess<'_> {
    /// Whether the profile ends before the capture.
    pub(super) const fn is_cut(&self) -> bool {
        self.window.until.is_some()
    }

    pub(super) fn ns_of_raw(&self, raw: u64) -> i64 {
        self.model.ns(Timestamp::from_raw(raw))
    }

    /// The threads that are shown, the main thread first.
    pub(super) fn listed(&self) -> impl Iterator<Item = (Place, &ThreadInfo, &SortedThread)> {
        let all = self
            .sorted
            .snapshot
            .threads
            .iter()
            .zip(&self.sorted.threads)
            .enumerate();
        let all = all.map(|(place, (info, sorted))| (place, info, sorted));
        all.filter(|(_, info, sorted)| info.is_main || !sorted.is_servant(info))
    }

    /// Threads that have samples but no row in the pool; they are written last.
    pub(super) fn sampled_only(&self) -> impl Iterator<Item = (ThreadId, &SortedThread)> {
        let rows = self.sorted.snapshot.threads.len();
        let tids = self.sorted.owners.sampled_only().map(|(_, tid)| tid);
        tids.zip(self.sorted.threads.iter().skip(rows))
    }

    /// Writes all threads into the open array. `next` is the index of the first. The main thread
    /// gets a marker for each process in `late`.
    pub(super) fn write_threads<S: ByteSource, W: Write>(
        &self,
        reader: &PoolReader<S>,
        next: u64,
        late: &[IncompleteProcess],
        shared: &mut ProfileTables,
        numbers: &Numbers,
        out: &mut JsonWriter<W>,
    ) -> io::Result<Written> {
        let plans = MarkerPlans::new(
            &self.sorted.snapshot.definitions,
            &self.model.spec.categories,
        );
        let mut fill = Fill {
            process: self,
            reader,
            sites: MarkerSites::new(&plans),
            known: KnownDefinitions::default(),
            path: PathCache::default(),
        };
        let deliveries = self
            .sorted
            .threads
            .iter()
            .map(|thread| thread.delivery)
            .collect();
        let mut written = Written {
            deliveries,
            main_thread: next,
            ..Written::default()
        };
        if self.model.lacks_main() {
            let markers = self.begin_main(late, shared);
            let ledger = Ledger {
                rows: &shared.rows,
                numbers,
                process: &self.model,
            };
            let head = ThreadHead::missing_main(&self.model);
            let nothing = SortedThread::default();
            written.add(thread::write(self, &head, &nothing, markers, ledger, out)?);
        }
        for (place, info, sorted) in self.listed() {
            let mut markers = match info.is_main {
                true => self.begin_main(late, shared),
                false => MarkerColumns::begin(&shared.spill_directory),
            };
            for run in self.slow_runs.of(place) {
                markers.add_own(run, &self.model, &mut shared.strings);
            }
            self.add_contexts(sorted, &mut markers, shared)?;
            fill.thread(place, &mut markers, &mut written, shared, numbers)?;
            let delivery = written.deliveries.get(place).copied().unwrap_or_default();
            self.add_losses(info, delivery, &mut markers, shared);
            let ledger = Ledger {
                rows: &shared.rows,
                numbers,
                process: &self.model,
            };
            written.add(thread::write(
                self,
                &ThreadHead::of(info),
                sorted,
                markers,
                ledger,
                out,
            )?);
        }
        for (tid, sorted) in self.sampled_only() {
            let name = thread_without_row(tid);
            let mut markers = MarkerColumns::begin(&shared.spill_directory);
            self.add_contexts(sorted, &mut markers, shared)?;
            let ledger = Ledger {
                rows: &shared.rows,
                numbers,
                process: &self.model,
            };
            let head = ThreadHead::without_row(&self.model, tid, &name);
            written.add(thread::write(self, &head, sorted, markers, ledger, out)?);
        }
        Ok(written)
    }

    /// Begins the markers of the main thread with the profiler's own: one for each incomplete
    /// process, and one for the losses of each thread that is not shown.
    fn begin_main(&self, late: &[IncompleteProcess], shared: &mut ProfileTables) -> MarkerColumns {
        let mut markers = MarkerColumns::begin(&shared.spill_directory);
        for incomplete in late {
            markers.add_own(incomplete, &self.model, &mut shared.strings);
        }
        for (info, sorted) in self
            .sorted
            .snapshot
            .threads
            .iter()
            .zip(&self.sorted.threads)
        {
            if sorted.is_servant(info) && !info.is_main {
                self.add_losses(info, sorted.delivery, &mut markers, shared);
            }
        }
        markers
    }

    /// Adds the runs of samples with the same context.
    fn add_contexts(
        &self,
        sorted: &SortedThread,
        markers: &mut MarkerColumns,
        shared: &mut ProfileTables,
    ) -> io::Result<()> {
        let ProfileTables { rows, strings, .. } = shared;
        let mut runs = ContextRuns::default();
        sorted.contexts.for_each(rows, |[at, words @ ..]| {
            let context = SampleContext::of_words(words);
            if let Some(run) = runs.add(self.ns_of_raw(at), context, &self.model) {
                markers.add_own(&run, &self.model, strings);
            }
        })?;
        if let Some(run) = runs.finish(&self.model) {
            markers.add_own(&run, &self.model, strings);
        }
        Ok(())
    }

    /// Adds a marker for the losses of a thread, if it has any.
    fn add_losses(
        &self,
        thread: &ThreadInfo,
        delivery: Delivery,
        markers: &mut MarkerColumns,
        shared: &mut ProfileTables,
    ) {
        if let Some(lost) = LostEntries::of(thread, delivery, &self.model) {
            markers.add_own(&lost, &self.model, &mut shared.strings);
        }
    }

    /// Writes the log of the process under its id. Returns the sum of its entry counts.
    pub(super) fn write_log<W: Write>(
        &self,
        written: &Written,
        out: &mut JsonWriter<W>,
    ) -> EntryCounts {
        let notices = self.model.snapshot.definitions.notices();
        write_log(&self.model, self.pid, &written.deliveries, notices, out)
    }
}

impl Written {
    /// Counts a written thread, and includes the range of its times.
    fn add(&mut self, shown: ShownRange) {
        self.shown += shown;
        self.threads += 1;
    }
}

/// Reads the markers of the threads from the pool.
struct Fill<'a, S> {
    process: &'a WrittenProcess<'a>,
    reader: &'a PoolReader<S>,
    sites: MarkerSites<'a>,
    known: KnownDefinitions,
    path: PathCache,
}

impl<S: ByteSource> Fill<'_, S> {
    /// Adds all markers of a thread: its own, and the markers that other threads recorded for it.
    fn thread(
        &mut self,
        place: Place,
        markers: &mut MarkerColumns,
        written: &mut Written,
        shared: &mut ProfileTables,
        numbers: &Numbers,
    ) -> io::Result<()> {
        let sorted = self.process.sorted;
        let Some(thread) = sorted.threads.get(place) else {
            return Ok(());
        };
        let ProfileTables { rows, strings, .. } = &mut *shared;
        thread.reassigned_markers.for_each(rows, |marker, _| {
            markers.note_foreign(marker, &mut self.sites, strings);
        })?;
        let mut own = 0_u64;
        let mut buffer = ChunkBuffer::default();
        for number in &thread.marker_chunks {
            let info = sorted.snapshot.threads.get(place);
            let Some(chunk) = info.and_then(|info| info.chunks.get(*number)) else {
                continue;
            };
            let read = self
                .reader
                .read_chunk(chunk, &mut buffer)
                .map_err(io::Error::other)?;
            let Some(entries) = read else {
                continue;
            };
            let earlier = info.map_or(0, |info| sorted.earlier.of(info, chunk));
            let new = entries.skip(usize::try_from(earlier).unwrap_or(usize::MAX));
            for entry in new {
                let Entry::Marker(marker) = entry else {
                    continue;
                };
                let owner = sorted.owners.of_marker(place, &marker);
                if owner != place || !self.process.window.has(marker.timing) {
                    continue;
                }
                let stack = self
                    .stack(&marker, shared)
                    .and_then(|node| numbers.of(node));
                markers.add(
                    &marker,
                    stack,
                    &self.process.model,
                    &mut self.sites,
                    &mut shared.strings,
                );
                own += 1;
            }
        }
        let ProfileTables { rows, strings, .. } = shared;
        thread.reassigned_markers.for_each(rows, |marker, node| {
            let stack = numbers.of_row(node);
            markers.add(marker, stack, &self.process.model, &mut self.sites, strings);
        })?;
        markers.add_open_spans(&self.process.model, &mut self.sites, strings);
        if let Some(delivery) = written.deliveries.get_mut(place) {
            delivery.delivered = delivery.delivered.saturating_add(own);
        }
        Ok(())
    }

    /// The node that the first pass assigned to the stack of a marker.
    fn stack(&mut self, marker: &MarkerEntry<'_>, shared: &mut ProfileTables) -> Option<NodeId> {
        if marker.stack.is_empty() {
            return None;
        }
        let ProfileTables {
            strings,
            libs,
            frames,
            stacks,
            ..
        } = shared;
        let definitions = &self.process.sorted.snapshot.definitions;
        let categories = &self.process.model.spec.categories;
        let known = &mut self.known;
        let mut translation = Translation {
            member: self.process.sorted.member,
            definitions,
            categories,
            libs,
            strings,
            known,
        };
        let kind = StackKind::of_caller(marker.stack.is_cut());
        self.path.node(
            marker.stack.frames(),
            kind,
            &mut translation,
            frames,
            stacks,
        )
    }
}
