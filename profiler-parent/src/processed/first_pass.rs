//! The first pass over a pool: everything but markers is sorted by thread, and all stacks are
//! collected.
//!
//! Runs once per process before anything is written, because the number of a stack in the profile
//! is known only when all its addresses have names. Markers stay in the pool, and the pass notes
//! which chunks hold some; markers that belong to another thread than the one that recorded them
//! are copied to it ([`super::reassigned_markers`]). Invariants: memory does not grow with the
//! number of entries, nor with the number of names in them; an entry counts as delivered for the
//! thread that recorded it.
//!
//! The second pass reads and decodes a thread's own markers again, and looks up their threads
//! again. That is about a sixth of the time in which it writes them: 60 of 355 ns for a marker
//! without payload, which is the cheapest to write (40,000 markers in one chunk, optimization level
//! 1). The alternative, to copy all markers in the first pass, writes and reads their bytes once
//! more.

use std::collections::BTreeMap;
use std::io;

use profiler_core::ids::CounterIndex;
use profiler_core::internal::entry::periodic::OverheadEntry;
use profiler_core::internal::entry::sample::{AllocationEntry, SampleEntry, Stacks as SharedFrames};
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::profile::CategoryRow;
use profiler_core::internal::profile::model::{Place, ThreadOwners};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader, Snapshot};

use super::frames::{AddressKind, Frames, Known, Translation};
use super::libs::Libs;
use super::reassigned_markers::ReassignedMarkers;
use super::rows::Rows;
use super::stacks::{NodeId, Paths, Stacks};
use super::store::RowStore;
use super::strings::ProfileStrings;
use super::thread_cap::ThreadCap;
use super::window::Window;

/// What all processes share in the first pass.
#[derive(Debug)]
pub(super) struct ProfileTables {
    pub(super) strings: ProfileStrings,
    pub(super) libs: Libs,
    pub(super) frames: Frames,
    pub(super) stacks: Stacks,
    pub(super) rows: RowStore,
    pub(super) thread_cap: ThreadCap,
}

impl ProfileTables {
    /// Empty tables for this many processes.
    pub(super) fn new(processes: usize) -> Self {
        Self {
            strings: ProfileStrings::new(processes),
            libs: Libs::new(processes),
            frames: Frames::new(processes),
            stacks: Stacks::new(processes),
            rows: RowStore::default(),
            thread_cap: ThreadCap::new(processes),
        }
    }

    /// The next process begins, and has its share of all.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.strings.begin_process(is_root);
        self.libs.begin_process(is_root);
        self.frames.begin_process(is_root);
        self.stacks.begin_process(is_root);
        self.thread_cap.begin_process(is_root);
    }

    /// The first pass is complete: look-ups find what it found, and add nothing.
    pub(super) fn close(&mut self) {
        self.strings.begin_code();
        self.frames.close();
        self.stacks.close();
    }
}

/// One thread, sorted.
#[derive(Debug, Default)]
pub(super) struct SortedThread {
    /// Time, processor time plus one (0: not measured), node plus one (0: none), ticks that it
    /// stands for.
    pub(super) samples: Rows<4>,
    /// Time, bytes, address, node plus one.
    pub(super) allocations: Rows<4>,
    /// Chunks of this thread that hold markers of its own.
    pub(super) marker_chunks: Vec<usize>,
    /// Markers that others recorded for it.
    pub(super) reassigned_markers: ReassignedMarkers,
    pub(super) markers: u64,
    /// Nanoseconds of processor time in all samples but the first.
    pub(super) cpu_ns: u64,
    /// Some samples stand for more than one tick.
    pub(super) has_rests: bool,
    /// Samples that show a stack.
    pub(super) busy_samples: u64,
    /// Entries that it recorded, apart from markers of its own, and that are in the profile.
    pub(super) delivered: u64,
}

impl SortedThread {
    /// Whether there is nothing to show of a thread that records for others.
    pub(super) const fn is_servant(&self) -> bool {
        self.delivered > 0 && self.samples.is_empty() && self.allocations.is_empty() && self.markers == 0
    }
}

/// One process, sorted.
#[derive(Debug)]
pub(super) struct SortedProcess {
    pub(super) snapshot: Snapshot,
    pub(super) owners: ThreadOwners,
    /// By the places that `owners` gives.
    pub(super) threads: Vec<SortedThread>,
    /// Whether the first values of counters that are left are the first that there were.
    pub(super) has_all_counters: bool,
    /// Time, value, number of changes; of the counters that the snapshot has, whatever cells
    /// entries name.
    pub(super) counters: BTreeMap<CounterIndex, Rows<3>>,
    /// Time, locking, counters, threads, all.
    pub(super) overhead: Rows<5>,
}

/// What decides what is taken, and how it is numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPassTerms<'a> {
    pub(super) window: Window,
    pub(super) categories: &'a [CategoryRow],
    /// Time between two ticks of the sampler, in timestamps; 0 if it is not known.
    pub(super) tick: u64,
}

/// Looks through a pool of which `snapshot` was taken.
pub(super) fn sort_process<S: ByteSource>(
    reader: &PoolReader<S>,
    snapshot: Snapshot,
    terms: FirstPassTerms<'_>,
    shared: &mut ProfileTables,
) -> io::Result<SortedProcess> {
    let mut snapshot = snapshot;
    only_one_main_thread(&mut snapshot);
    shared.thread_cap.keep(&mut snapshot);
    let counters = snapshot.counters.iter().map(|counter| (counter.definition.cell, Rows::default()));
    let mut sorted = SortedProcess {
        counters: counters.collect(),
        owners: ThreadOwners::new(&snapshot),
        threads: snapshot.threads.iter().map(|_| SortedThread::default()).collect(),
        has_all_counters: terms.window.since.is_none(),
        snapshot,
        overhead: Rows::default(),
    };
    // Aside while entries are sorted into what belongs to them.
    let threads = std::mem::take(&mut sorted.snapshot.threads);
    let (mut buffer, mut frames) = (ChunkBuffer::default(), SharedFrames::default());
    let (mut known, mut paths) = (Known::default(), Paths::default());
    for (place, thread) in threads.iter().enumerate() {
        for (number, chunk) in thread.chunks.iter().enumerate() {
            let read = reader.read_chunk(chunk, &mut buffer).map_err(io::Error::other)?;
            let ChunkRead::Entries(mut entries) = read else { continue };
            frames.begin_chunk();
            while let Some((entry, bytes)) = entries.next_with_bytes() {
                let is_first = thread.chunks.first().is_some_and(|first| first.first_entry == 0);
                sorted.has_all_counters &= is_first || !matches!(entry, Entry::Counters(_));
                let (known, paths) = (&mut known, &mut paths);
                let at = (place, number);
                let mut pass = Pass { sorted: &mut sorted, shared, terms, at, bytes, known, paths };
                pass.take(&entry, &mut frames)?;
            }
        }
    }
    sorted.snapshot.threads = threads;
    Ok(sorted)
}

/// A pool may say so of any number; for each of them there would be all that belongs to a main
/// thread.
fn only_one_main_thread(snapshot: &mut Snapshot) {
    let mut is_there = false;
    for thread in &mut snapshot.threads {
        thread.is_main &= !is_there;
        is_there |= thread.is_main;
    }
}

/// One entry's way to its thread.
struct Pass<'a, 't> {
    sorted: &'a mut SortedProcess,
    shared: &'a mut ProfileTables,
    terms: FirstPassTerms<'t>,
    /// Who recorded it, and in which of its chunks.
    at: (Place, usize),
    /// The entry as it stands there.
    bytes: &'a [u8],
    known: &'a mut Known,
    paths: &'a mut Paths,
}

impl Pass<'_, '_> {
    fn take(&mut self, entry: &Entry<'_>, frames: &mut SharedFrames) -> io::Result<()> {
        // Also a sample that is not wanted: others share its frames.
        let stack = if let Entry::Sample(sample) = entry { frames.of(sample) } else { &[] };
        if !self.terms.window.has_entry(entry, self.terms.tick) {
            return Ok(());
        }
        let is_there = match entry {
            Entry::Marker(marker) => self.marker(marker)?,
            Entry::Sample(sample) => self.sample(sample, stack)?,
            Entry::Allocation(allocation) => self.allocation(allocation)?,
            Entry::Counters(counters) => {
                for value in counters.values() {
                    let row = [counters.at.raw(), value.value.cast_unsigned(), value.number];
                    if let Some(rows) = self.sorted.counters.get_mut(&value.cell) {
                        rows.push(&mut self.shared.rows, row)?;
                    }
                }
                true
            }
            Entry::Overhead(overhead) => {
                let OverheadEntry { at, locking_ns, counters_ns, threads_ns, total_ns } = *overhead;
                let row = [at.raw(), locking_ns, counters_ns, threads_ns, total_ns];
                self.sorted.overhead.push(&mut self.shared.rows, row)?;
                true
            }
            // Of a kind that this build does not know: it is not in the profile.
            _ => false,
        };
        if let Some(thread) = self.sorted.threads.get_mut(self.at.0) {
            thread.delivered += u64::from(is_there);
        }
        Ok(())
    }

    /// Notes where a marker is, and its stack. A marker for another thread is copied to that
    /// thread, and counts as delivered from now on; one of the recorder's own does so when it is
    /// written.
    fn marker(&mut self, marker: &MarkerEntry<'_>) -> io::Result<bool> {
        let (recorder, chunk) = self.at;
        let owner = self.sorted.owners.of_marker(recorder, marker);
        let kind = (AddressKind::ReturnAddress, marker.stack.is_cut());
        let has_stack = !marker.stack.is_empty();
        let node = if has_stack { self.node(owner, marker.stack.frames(), kind) } else { None };
        let Some(thread) = self.sorted.threads.get_mut(owner) else { return Ok(false) };
        thread.markers += 1;
        if owner != recorder {
            thread.reassigned_markers.push(&mut self.shared.rows, self.bytes, node)?;
            return Ok(true);
        }
        if thread.marker_chunks.last() != Some(&chunk) {
            thread.marker_chunks.push(chunk);
        }
        Ok(false)
    }

    /// Takes a sample; false if there is no place for it.
    fn sample(&mut self, sample: &SampleEntry<'_>, stack: &[Frame]) -> io::Result<bool> {
        let cap = &mut self.shared.thread_cap;
        let owner = self.sorted.owners.note_sample(self.at.0, sample, || cap.one_more());
        let Some(owner) = owner else { return Ok(false) };
        if owner == self.sorted.threads.len() {
            self.sorted.threads.push(SortedThread::default());
        }
        let kind = (AddressKind::Instruction, sample.cut || sample.failed);
        let node = self.node(owner, stack.iter().copied(), kind);
        let cpu = sample.cpu_ns.map_or(0, |ns| ns.saturating_add(1));
        let Some(thread) = self.sorted.threads.get_mut(owner) else { return Ok(false) };
        if !thread.samples.is_empty() {
            thread.cpu_ns = thread.cpu_ns.saturating_add(sample.cpu_ns.unwrap_or(0));
        }
        let (at, ticks) = self.terms.window.clip(sample.at, sample.ticks, self.terms.tick);
        thread.has_rests |= ticks > 1;
        thread.busy_samples += u64::from(node.is_some() && sample.cpu_ns != Some(0));
        thread.samples.push(&mut self.shared.rows, [at.raw(), cpu, plus_one(node), ticks])?;
        Ok(true)
    }

    fn allocation(&mut self, allocation: &AllocationEntry<'_>) -> io::Result<bool> {
        let node = self.node(
            self.at.0,
            allocation.stack.frames(),
            (AddressKind::ReturnAddress, allocation.stack.is_cut()),
        );
        let row = [allocation.at.raw(), allocation.bytes.cast_unsigned(), allocation.address, plus_one(node)];
        let Some(thread) = self.sorted.threads.get_mut(self.at.0) else { return Ok(false) };
        thread.allocations.push(&mut self.shared.rows, row)?;
        Ok(true)
    }

    fn node(
        &mut self,
        owner: Place,
        stack: impl ExactSizeIterator<Item = Frame>,
        kind: (AddressKind, bool),
    ) -> Option<NodeId> {
        let ProfileTables { strings, libs, frames, stacks, .. } = &mut *self.shared;
        let definitions = &self.sorted.snapshot.definitions;
        let (categories, known) = (self.terms.categories, &mut *self.known);
        let mut translation = Translation { definitions, categories, libs, strings, known };
        self.paths.node(owner, stack, kind, &mut translation, (frames, stacks))
    }
}

/// A node in a row: 0 is none.
fn plus_one(node: Option<NodeId>) -> u64 {
    node.map_or(0, |node| u64::from(node.0) + 1)
}
