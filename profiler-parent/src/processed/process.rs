//! One process while it is written: its times, its threads, its books.

use std::io::{self, Write};

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::losses::EntryCounts;
use profiler_core::internal::profile::frame_names::thread_without_row;
use profiler_core::internal::profile::gecko::IncompleteProcess;
use profiler_core::internal::profile::gecko::shared::{
    ENTRIES_LOST, INCOMPLETE_PROCESS, MarkerPlans, counts, write_books, write_incomplete_process,
    write_losses,
};
use profiler_core::internal::profile::{CategoryRow, JsonWriter, ShownRange};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader, ThreadInfo};
use profiler_core::time::{TimeConverter, Timestamp};

use super::first_pass::{ProfileTables, SortedProcess, SortedThread};
use super::frames::{Known, Translation};
use super::markers::{MarkerColumns, Sites};
use super::owners::Place;
use super::samples::Ledger;
use super::stacks::{Innermost, NodeId, PathCache};
use super::symbolicated::Numbers;
use super::thread::{self, Head};
use super::window::Window;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) sorted: &'a SortedProcess,
    /// Its number, distinct from that of all others in the profile.
    pub(super) pid: &'a str,
    pub(super) converter: TimeConverter,
    /// When the capture was made.
    pub(super) capture: Timestamp,
    pub(super) window: Window,
    pub(super) categories: &'a [CategoryRow],
}

/// What became of a process's threads.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Entries in the profile by the thread that recorded them.
    delivered: Vec<u64>,
    /// Number in the profile of its first thread, which is the main one.
    pub(super) main_thread: u64,
    pub(super) threads: u32,
    pub(super) shown: ShownRange,
}

impl Process<'_> {
    /// Nanoseconds from the session's start.
    pub(super) fn ns(&self, at: Timestamp) -> i64 {
        self.converter.since_start_ns(at)
    }

    pub(super) fn ns_of_raw(&self, raw: u64) -> i64 {
        self.ns(Timestamp::from_raw(raw))
    }

    pub(super) fn recording_start_ns(&self) -> i64 {
        self.ns(self.sorted.snapshot.header.recording_start)
    }

    /// When it ended, or else the capture.
    pub(super) fn end_ns(&self) -> i64 {
        self.ns(self.sorted.role.ended.unwrap_or(self.capture))
    }

    /// The threads that are shown, the main one first.
    pub(super) fn listed(&self) -> impl Iterator<Item = (Place, &ThreadInfo, &SortedThread)> {
        let all = self.sorted.snapshot.threads.iter().zip(&self.sorted.threads).enumerate();
        let all = all.map(|(place, (info, sorted))| (place, info, sorted));
        all.filter(|(_, info, sorted)| info.is_main || !sorted.is_servant())
    }

    /// Threads that have samples and no row; they come after all others.
    pub(super) fn sampled_only(&self) -> impl Iterator<Item = (ThreadId, &SortedThread)> {
        let rows = self.sorted.snapshot.threads.len();
        self.sorted.sampled_only.iter().copied().zip(self.sorted.threads.iter().skip(rows))
    }

    /// Whether nothing is left of the main thread.
    pub(super) fn lacks_main(&self) -> bool {
        !self.sorted.snapshot.threads.iter().any(|thread| thread.is_main)
    }

    /// Writes all threads; the array is open, and `next` is the number of the first. `late` goes to the main one.
    pub(super) fn write_threads<S: ByteSource, W: Write>(
        &self,
        reader: &PoolReader<S>,
        next: u64,
        late: &[IncompleteProcess],
        (shared, numbers): (&mut ProfileTables, &Numbers),
        out: &mut JsonWriter<W>,
    ) -> io::Result<Written> {
        let plans = MarkerPlans::new(&self.sorted.snapshot.definitions, self.categories);
        let mut fill = Fill {
            process: self,
            reader,
            sites: Sites::new(&plans),
            known: Known::default(),
            path: PathCache::default(),
        };
        let delivered = self.sorted.threads.iter().map(|thread| thread.delivered).collect();
        let mut written = Written { delivered, main_thread: next, ..Written::default() };
        if self.lacks_main() {
            let markers = self.begin_main(late, shared);
            let ledger = Ledger { rows: &shared.rows, numbers, converter: self.converter };
            let (head, nothing) = (Head::missing_main(self), SortedThread::default());
            written.shown += thread::write(self, &head, &nothing, markers, ledger, out)?;
            written.threads += 1;
        }
        for (place, info, sorted) in self.listed() {
            let mut markers = match info.is_main {
                true => self.begin_main(late, shared),
                false => MarkerColumns::begin(self.converter),
            };
            let own = fill.thread(place, &mut markers, &mut written, (&mut *shared, numbers))?;
            let delivered = own.saturating_add(sorted.delivered);
            self.add_losses(info, delivered, &mut markers, shared);
            let ledger = Ledger { rows: &shared.rows, numbers, converter: self.converter };
            written.shown += thread::write(self, &Head::of(info), sorted, markers, ledger, out)?;
            written.threads += 1;
        }
        for (tid, sorted) in self.sampled_only() {
            let markers = MarkerColumns::begin(self.converter);
            let ledger = Ledger { rows: &shared.rows, numbers, converter: self.converter };
            let name = thread_without_row(tid);
            let head = Head::without_row(self, tid, &name);
            written.shown += thread::write(self, &head, sorted, markers, ledger, out)?;
            written.threads += 1;
        }
        Ok(written)
    }

    /// The markers of the main thread begin with the profiler's own: what is known of incomplete processes,
    /// and of threads that are not shown.
    fn begin_main(&self, late: &[IncompleteProcess], shared: &mut ProfileTables) -> MarkerColumns {
        let mut markers = MarkerColumns::begin(self.converter);
        for process in late {
            let name = shared.strings.own(INCOMPLETE_PROCESS);
            let times = (self.ns(process.since), self.ns(self.capture));
            markers.add_own(name, times, |out| write_incomplete_process(process, out));
        }
        for (info, sorted) in self.sorted.snapshot.threads.iter().zip(&self.sorted.threads) {
            if sorted.is_servant() && !info.is_main {
                self.add_losses(info, sorted.delivered, &mut markers, shared);
            }
        }
        markers
    }

    /// Adds the marker of what a thread lost, if it lost anything: from when it could first record to its
    /// first entry that is left, or to the capture.
    fn add_losses(
        &self,
        thread: &ThreadInfo,
        delivered: u64,
        markers: &mut MarkerColumns,
        shared: &mut ProfileTables,
    ) {
        let counts = counts(thread, delivered);
        if counts.recorded() == counts.delivered {
            return;
        }
        let start = self.ns(thread.registered.max(self.sorted.snapshot.header.recording_start));
        let first_left = thread.chunks.first().filter(|_| counts.dropped.total() == 0);
        let end = first_left.map_or_else(|| self.ns(self.capture), |chunk| self.ns(chunk.start));
        let name = shared.strings.own(ENTRIES_LOST);
        markers.add_own(name, (start, end), |out| write_losses(&counts, out));
    }

    /// Writes the process's books under its number, and gives their sum.
    pub(super) fn write_log<W: Write>(&self, written: &Written, out: &mut JsonWriter<W>) -> EntryCounts {
        let mut total = self.sorted.snapshot.gone;
        out.key(self.pid);
        out.begin_object();
        out.entry_millis_ns("profilingLogBegin_TSms", Some(self.recording_start_ns()));
        out.entry_millis_ns("profilingLogEnd_TSms", Some(self.ns(self.capture)));
        out.key("threads");
        out.begin_array();
        for (place, thread) in self.sorted.snapshot.threads.iter().enumerate() {
            let counts = counts(thread, written.delivered.get(place).copied().unwrap_or(0));
            total += counts;
            out.begin_object();
            out.entry_str("name", &thread.name);
            out.entry_u64("tid", thread.tid.get());
            write_books(&counts, out);
            out.end_object();
        }
        out.end_array();
        for (key, counts) in [("endedThreads", &self.sorted.snapshot.gone), ("total", &total)] {
            out.key(key);
            out.begin_object();
            write_books(counts, out);
            out.end_object();
        }
        out.end_object();
        total
    }
}

/// Takes the markers of one thread after the other out of the pool.
struct Fill<'a, S> {
    process: &'a Process<'a>,
    reader: &'a PoolReader<S>,
    sites: Sites<'a>,
    known: Known,
    path: PathCache,
}

impl<S: ByteSource> Fill<'_, S> {
    /// Adds all markers of a thread: its own, and those that others recorded for it. Gives how many are its own.
    fn thread(
        &mut self,
        place: Place,
        markers: &mut MarkerColumns,
        written: &mut Written,
        (shared, numbers): (&mut ProfileTables, &Numbers),
    ) -> io::Result<u64> {
        let sorted = self.process.sorted;
        let Some(thread) = sorted.threads.get(place) else { return Ok(0) };
        let (mut own, mut buffer) = (0_u64, ChunkBuffer::default());
        for number in &thread.marker_chunks {
            let info = sorted.snapshot.threads.get(place);
            let Some(chunk) = info.and_then(|info| info.chunks.get(*number)) else { continue };
            let read = self.reader.read_chunk(chunk, &mut buffer).map_err(io::Error::other)?;
            let ChunkRead::Entries(entries) = read else { continue };
            for entry in entries {
                let Entry::Marker(marker) = entry else { continue };
                let last = marker.timing.last();
                let owner = sorted.owners.owner(place, marker.foreign, last);
                if owner != place || !self.process.window.has(marker.timing) {
                    continue;
                }
                let stack = self.stack(&marker, shared).and_then(|node| numbers.of(node));
                markers.add(&marker, stack, &mut self.sites, &mut shared.strings);
                own += 1;
            }
        }
        let ProfileTables { rows, strings, .. } = shared;
        thread.reassigned_markers.for_each(rows, |marker, node| {
            markers.add(marker, numbers.of_row(node), &mut self.sites, strings);
        })?;
        if let Some(delivered) = written.delivered.get_mut(place) {
            *delivered = delivered.saturating_add(own);
        }
        Ok(own)
    }

    /// The node of a marker's stack, as the first pass found it.
    fn stack(&mut self, marker: &MarkerEntry<'_>, shared: &mut ProfileTables) -> Option<NodeId> {
        if marker.stack.is_empty() {
            return None;
        }
        let ProfileTables { strings, libs, frames, stacks, .. } = shared;
        let definitions = &self.process.sorted.snapshot.definitions;
        let (categories, known) = (self.process.categories, &mut self.known);
        let mut translation = Translation { definitions, categories, libs, strings, known };
        let kind = (Innermost::ReturnAddress, marker.stack.is_cut());
        self.path.node(marker.stack.frames(), kind, &mut translation, (frames, stacks))
    }
}
