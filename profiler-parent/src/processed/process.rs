//! One process while it is written: its threads, and its log.

use std::io::{self, Write};

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::profile::frame_names::thread_without_row;
use profiler_core::internal::profile::model::{
    IncompleteProcess, LostEntries, MarkerPlans, MarkerSites, Place, ProcessModel, ThreadHead, write_log,
};
use profiler_core::internal::profile::{JsonWriter, ShownRange};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader, ThreadInfo};
use profiler_core::time::Timestamp;

use super::first_pass::{ProfileTables, SortedProcess, SortedThread};
use super::frames::{AddressKind, Known, Translation};
use super::markers::MarkerColumns;
use super::samples::Ledger;
use super::stacks::{NodeId, PathCache};
use super::symbolicated::Numbers;
use super::thread;
use super::window::Window;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) model: ProcessModel<'a>,
    pub(super) sorted: &'a SortedProcess,
    /// Its number, distinct from that of all others in the profile.
    pub(super) pid: &'a str,
    pub(super) window: Window,
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
    pub(super) fn ns_of_raw(&self, raw: u64) -> i64 {
        self.model.ns(Timestamp::from_raw(raw))
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
        let tids = self.sorted.owners.sampled_only().map(|(_, tid)| tid);
        tids.zip(self.sorted.threads.iter().skip(rows))
    }

    /// Writes all threads; the array is open, and `next` is the number of the first. `late` goes to
    /// the main one.
    pub(super) fn write_threads<S: ByteSource, W: Write>(
        &self,
        reader: &PoolReader<S>,
        next: u64,
        late: &[IncompleteProcess],
        (shared, numbers): (&mut ProfileTables, &Numbers),
        out: &mut JsonWriter<W>,
    ) -> io::Result<Written> {
        let plans = MarkerPlans::new(&self.sorted.snapshot.definitions, &self.model.spec.categories);
        let mut fill = Fill {
            process: self,
            reader,
            sites: MarkerSites::new(&plans),
            known: Known::default(),
            path: PathCache::default(),
        };
        let delivered = self.sorted.threads.iter().map(|thread| thread.delivered).collect();
        let mut written = Written { delivered, main_thread: next, ..Written::default() };
        if self.model.lacks_main() {
            let markers = self.begin_main(late, shared);
            let ledger = Ledger { rows: &shared.rows, numbers, process: &self.model };
            let (head, nothing) = (ThreadHead::missing_main(&self.model), SortedThread::default());
            written.add(thread::write(self, &head, &nothing, markers, ledger, out)?);
        }
        for (place, info, sorted) in self.listed() {
            let mut markers = match info.is_main {
                true => self.begin_main(late, shared),
                false => MarkerColumns::begin(),
            };
            let own = fill.thread(place, &mut markers, &mut written, (&mut *shared, numbers))?;
            self.add_losses(info, own.saturating_add(sorted.delivered), &mut markers, shared);
            let ledger = Ledger { rows: &shared.rows, numbers, process: &self.model };
            written.add(thread::write(self, &ThreadHead::of(info), sorted, markers, ledger, out)?);
        }
        for (tid, sorted) in self.sampled_only() {
            let ledger = Ledger { rows: &shared.rows, numbers, process: &self.model };
            let name = thread_without_row(tid);
            let head = ThreadHead::without_row(&self.model, tid, &name);
            written.add(thread::write(self, &head, sorted, MarkerColumns::begin(), ledger, out)?);
        }
        Ok(written)
    }

    /// The markers of the main thread begin with the profiler's own: what is known of incomplete
    /// processes, and of threads that are not shown.
    fn begin_main(&self, late: &[IncompleteProcess], shared: &mut ProfileTables) -> MarkerColumns {
        let mut markers = MarkerColumns::begin();
        for incomplete in late {
            markers.add_own(incomplete, &self.model, &mut shared.strings);
        }
        for (info, sorted) in self.sorted.snapshot.threads.iter().zip(&self.sorted.threads) {
            if sorted.is_servant() && !info.is_main {
                self.add_losses(info, sorted.delivered, &mut markers, shared);
            }
        }
        markers
    }

    /// Adds the marker of what a thread lost, if it lost anything.
    fn add_losses(
        &self,
        thread: &ThreadInfo,
        delivered: u64,
        markers: &mut MarkerColumns,
        shared: &mut ProfileTables,
    ) {
        if let Some(lost) = LostEntries::of(thread, delivered) {
            markers.add_own(&lost, &self.model, &mut shared.strings);
        }
    }

    /// Writes the process's log under its number, and gives the sum of its entry counts.
    pub(super) fn write_log<W: Write>(&self, written: &Written, out: &mut JsonWriter<W>) -> EntryCounts {
        write_log(&self.model, self.pid, &written.delivered, &[], out)
    }
}

impl Written {
    /// A thread is written that spans these times.
    fn add(&mut self, shown: ShownRange) {
        self.shown += shown;
        self.threads += 1;
    }
}

/// Takes the markers of one thread after the other out of the pool.
struct Fill<'a, S> {
    process: &'a Process<'a>,
    reader: &'a PoolReader<S>,
    sites: MarkerSites<'a>,
    known: Known,
    path: PathCache,
}

impl<S: ByteSource> Fill<'_, S> {
    /// Adds all markers of a thread: its own, and those that others recorded for it. Gives how many
    /// are its own.
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
                let owner = sorted.owners.of_marker(place, &marker);
                if owner != place || !self.process.window.has(marker.timing) {
                    continue;
                }
                let stack = self.stack(&marker, shared).and_then(|node| numbers.of(node));
                markers.add(&marker, stack, &self.process.model, &mut self.sites, &mut shared.strings);
                own += 1;
            }
        }
        let ProfileTables { rows, strings, .. } = shared;
        thread.reassigned_markers.for_each(rows, |marker, node| {
            let stack = numbers.of_row(node);
            markers.add(marker, stack, &self.process.model, &mut self.sites, strings);
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
        let (categories, known) = (&self.process.model.spec.categories, &mut self.known);
        let mut translation = Translation { definitions, categories, libs, strings, known };
        let kind = (AddressKind::ReturnAddress, marker.stack.is_cut());
        self.path.node(marker.stack.frames(), kind, &mut translation, (frames, stacks))
    }
}
