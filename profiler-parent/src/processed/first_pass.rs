//! The first pass over a pool: everything but markers is sorted by thread, and all stacks are
//! collected.
//!
//! Runs once per process before anything is written, because the number of a stack in the profile
//! is known only when all its addresses have names. Markers stay in the pool, and the pass notes
//! which chunks contain markers. A marker that belongs to another thread than the thread that
//! recorded it is copied to that other thread ([`super::reassigned_markers`]). Invariants: memory
//! does not grow with the number of entries, nor with the number of names in them; an entry counts
//! as delivered for the thread that recorded it.
//!
//! The second pass reads and decodes a thread's own markers again, and looks up their threads
//! again. This takes about a sixth of the time of writing them: 60 of 355 ns for a marker without
//! payload, which is the cheapest to write (40,000 markers in one chunk, optimization level 1). The
//! alternative, copying all markers in the first pass, would write and read their bytes once more.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use profiler_core::ids::CounterIndex;
use profiler_core::internal::entry::sample::{
    AllocationEntry, SampleEntry, Stacks as SharedFrames,
};
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, PoolReader, Snapshot, ThreadInfo};
use profiler_core::time::Timestamp;
use profiler_gecko::model::{Place, ThreadOwners};

use super::borders::{BorderThread, Borders, MAX_WAIT_FRAMES, WaitStack};
use super::counter_rows::CounterRows;
use super::earlier::{CountersAtEnd, EarlierEntries, LeftOutThreads, key_of};
pub(super) use super::first_pass_terms::FirstPassTerms;
use super::frames::{Frames, KnownDefinitions, MemberNumber, Translation};
use super::libs::Libs;
use super::rows::Rows;
use super::sorted_thread::{OpenWait, SortedThread, plus_one};
use super::stacks::{NodeId, Paths, StackKind, Stacks};
use super::store::RowStore;
use super::strings::ProfileStrings;
use super::thread_cap::ThreadCap;

/// The tables that all processes share in the first pass.
#[derive(Debug)]
pub(super) struct ProfileTables {
    pub(super) strings: ProfileStrings,
    pub(super) libs: Libs,
    pub(super) frames: Frames,
    pub(super) stacks: Stacks,
    pub(super) rows: RowStore,
    pub(super) thread_cap: ThreadCap,
    /// The directory of the files of long columns.
    pub(super) spill_directory: PathBuf,
    /// The number of frames of open waits that are remembered.
    wait_frames: usize,
}

impl ProfileTables {
    /// Creates empty tables for this number of processes.
    pub(super) fn new(processes: usize) -> Self {
        Self {
            strings: ProfileStrings::new(processes),
            libs: Libs::new(processes),
            frames: Frames::new(processes),
            stacks: Stacks::new(processes),
            rows: RowStore::default(),
            thread_cap: ThreadCap::new(processes),
            spill_directory: profiler_files::spill::directory(),
            wait_frames: 0,
        }
    }

    /// Begins the next process, and sets its share of every table.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.strings.begin_process(is_root);
        self.libs.begin_process(is_root);
        self.frames.begin_process(is_root);
        self.stacks.begin_process(is_root);
        self.thread_cap.begin_process(is_root);
    }

    /// Ends the first pass: from now on, look-ups of frames and stacks add no rows.
    pub(super) fn close(&mut self) {
        self.strings.begin_code();
        self.frames.close();
        self.stacks.close();
    }
}

/// The entries of one process, sorted by thread.
#[derive(Debug)]
pub(super) struct SortedProcess {
    pub(super) member: MemberNumber,
    pub(super) snapshot: Snapshot,
    /// The entries that are not in this profile, because earlier ones of its series have them.
    pub(super) earlier: EarlierEntries,
    pub(super) owners: ThreadOwners,
    /// Indexed by the places that `owners` returns.
    pub(super) threads: Vec<SortedThread>,
    /// Whether the first values of the counters are present, in the profile's range or before it:
    /// none is evicted.
    pub(super) has_all_counters: bool,
    /// The last value of each counter before the profile's range: time, value and number of
    /// changes.
    pub(super) counters_before: BTreeMap<CounterIndex, [u64; 3]>,
    pub(super) counters: CounterRows,
    /// Rows of time, and the durations of locking, counters, threads, and the whole tick.
    /// Time, waiting for locks, counters, threads, all, handlers, interval.
    pub(super) overhead: Rows<7>,
    /// The threads that found no room.
    pub(super) left_out: LeftOutThreads,
    counters_at_end: CountersAtEnd,
}

impl SortedProcess {
    /// A process without entries. Removes the threads that find no room.
    fn new(
        snapshot: Snapshot,
        earlier: EarlierEntries,
        terms: FirstPassTerms<'_>,
        shared: &mut ProfileTables,
    ) -> Self {
        let counters_at_end = CountersAtEnd::of(&snapshot, terms.end, Timestamp::now());
        let mut snapshot = snapshot;
        only_one_main_thread(&mut snapshot);
        let mut left_out = LeftOutThreads::default();
        let leave_out = |thread: &ThreadInfo| left_out.add(thread, &earlier);
        shared.thread_cap.keep(&mut snapshot, leave_out);
        Self {
            member: shared.frames.member(),
            counters: CounterRows::new(&snapshot, terms.downsampling),
            owners: ThreadOwners::new(&snapshot),
            threads: snapshot
                .threads
                .iter()
                .map(|thread| SortedThread::after(earlier.border(key_of(thread))))
                .collect(),
            has_all_counters: true,
            counters_before: earlier.first_values(&snapshot),
            snapshot,
            earlier,
            overhead: Rows::default(),
            left_out,
            counters_at_end,
        }
    }

    /// What the series contains with this profile.
    pub(super) fn and_earlier(&self) -> EarlierEntries {
        let counters = self.counters_at_end.clone();
        self.earlier
            .and(&self.snapshot, self.borders(), &self.left_out, counters)
    }

    /// The last rows of all threads, for the next profile of the series.
    fn borders(&self) -> Borders {
        let mut borders = Borders::default();
        let rows = self.snapshot.threads.iter().map(key_of);
        let sampled = self.owners.sampled_only();
        let sampled = sampled.map(|(_, tid)| BorderThread::Sampled(tid));
        for (key, thread) in rows.chain(sampled).zip(&self.threads) {
            if let Some(border) = thread.next_border() {
                borders.set(key, border);
            }
        }
        borders
    }

    /// Adds the thread that `owner` is the place of, if it is new: a thread without a row.
    fn add_sampled_only(&mut self, owner: Place, sample: &SampleEntry<'_>) {
        if owner == self.threads.len() {
            let key = sample.foreign.map(BorderThread::Sampled);
            let border = key.and_then(|key| self.earlier.border(key));
            self.threads.push(SortedThread::after(border));
        }
    }

    /// Counts entries of a thread that are not in the profile.
    fn count_outside(&mut self, place: Place, entries: u64) {
        if let Some(thread) = self.threads.get_mut(place) {
            thread.delivery.outside = thread.delivery.outside.saturating_add(entries);
        }
    }
}

/// Runs the first pass over a pool and its `snapshot`.
pub(super) fn sort_process<S: ByteSource>(
    reader: &PoolReader<S>,
    snapshot: Snapshot,
    earlier: EarlierEntries,
    terms: FirstPassTerms<'_>,
    shared: &mut ProfileTables,
) -> io::Result<SortedProcess> {
    let mut sorted = SortedProcess::new(snapshot, earlier, terms, shared);
    // Moved out, because `sorted` is borrowed mutably while entries are sorted.
    let threads = std::mem::take(&mut sorted.snapshot.threads);
    let mut buffer = ChunkBuffer::default();
    let mut frames = SharedFrames::default();
    let mut known = KnownDefinitions::default();
    let mut paths = Paths::default();
    let mut pass = Pass {
        sorted: &mut sorted,
        shared,
        terms,
        at: (0, 0),
        bytes: &[],
        known: &mut known,
        paths: &mut paths,
    };
    (0..threads.len()).for_each(|place| pass.go_on_waiting(place));
    for (place, thread) in threads.iter().enumerate() {
        for (number, chunk) in thread.chunks.iter().enumerate() {
            let mut skipped = sorted.earlier.of(thread, chunk);
            sorted.has_all_counters &= skipped == 0;
            if skipped > 0 && skipped == chunk.entries {
                sorted.count_outside(place, skipped);
                continue;
            }
            let read = reader
                .read_chunk(chunk, &mut buffer)
                .map_err(io::Error::other)?;
            let Some(mut entries) = read else {
                continue;
            };
            frames.begin_chunk();
            while let Some((entry, bytes)) = entries.next_with_bytes() {
                let is_first = thread
                    .chunks
                    .first()
                    .is_some_and(|first| first.first_entry == 0);
                sorted.has_all_counters &= is_first || !matches!(entry, Entry::Counters(_));
                let known = &mut known;
                let paths = &mut paths;
                let at = (place, number);
                let mut pass = Pass {
                    sorted: &mut sorted,
                    shared,
                    terms,
                    at,
                    bytes,
                    known,
                    paths,
                };
                if skipped > 0 {
                    skipped -= 1;
                    pass.skip(&entry, &mut frames);
                } else {
                    pass.take(&entry, &mut frames)?;
                }
            }
        }
    }
    sorted.snapshot.threads = threads;
    sorted.counters.finish(&mut shared.rows)?;
    end_open_waits(&mut sorted, terms, shared)?;
    Ok(sorted)
}

/// Adds a sample for each thread that waits since its last one: it stands for all ticks up to the
/// end. The sampler records nothing while a thread waits.
fn end_open_waits(
    sorted: &mut SortedProcess,
    terms: FirstPassTerms<'_>,
    shared: &mut ProfileTables,
) -> io::Result<()> {
    let end = terms
        .window
        .until
        .map_or(terms.end, |until| until.min(terms.end));
    for thread in &mut sorted.threads {
        let wait = thread.open_wait;
        if !wait.is_open() {
            continue;
        }
        let waited = end.raw().saturating_sub(wait.since.raw());
        let all = waited.checked_div(terms.tick).unwrap_or(0);
        let ticks = all.saturating_sub(wait.ticks.into());
        if ticks > 0 {
            let (at, ticks) = terms.window.clip(end, ticks, terms.tick);
            let cpu = u64::from(thread.has_cpu);
            let weight = terms.weight_of_ticks(ticks);
            let row = [at.raw(), cpu, u64::from(wait.node), weight];
            thread.push_sample(row, terms.window, &mut shared.rows)?;
            thread.note_context(at, None, &mut shared.rows)?;
            thread.open_wait.ticks = u32::try_from(all).unwrap_or(u32::MAX);
        }
    }
    Ok(())
}

/// Keeps at most one main thread. A pool may mark any number of threads as main, and each of them
/// would repeat the markers that belong to the main thread.
fn only_one_main_thread(snapshot: &mut Snapshot) {
    let mut is_there = false;
    for thread in &mut snapshot.threads {
        thread.is_main &= !is_there;
        is_there |= thread.is_main;
    }
}

/// Assigns one entry to its thread.
struct Pass<'a, 't> {
    sorted: &'a mut SortedProcess,
    shared: &'a mut ProfileTables,
    terms: FirstPassTerms<'t>,
    /// The recording thread, and the index of the chunk in it.
    at: (Place, usize),
    /// The encoded entry.
    bytes: &'a [u8],
    known: &'a mut KnownDefinitions,
    paths: &'a mut Paths,
}

impl Pass<'_, '_> {
    fn take(&mut self, entry: &Entry<'_>, frames: &mut SharedFrames) -> io::Result<()> {
        // Samples outside the window are decoded as well, because other samples share their frames.
        let stack = if let Entry::Sample(sample) = entry {
            frames.of(sample)
        } else {
            &[]
        };
        if !self.terms.window.has_entry(entry, self.terms.tick) {
            self.outside(entry, stack);
            return Ok(());
        }
        let is_there = match entry {
            Entry::Marker(marker) => self.marker(marker)?,
            Entry::Sample(sample) => self.sample(sample, stack)?,
            Entry::Allocation(allocation) => self.allocation(allocation)?,
            Entry::Counters(counters) if self.sorted.earlier.has_counters_of(counters.at) => true,
            Entry::Counters(counters) => {
                let store = &mut self.shared.rows;
                self.sorted.counters.add(counters, store)?;
                true
            }
            Entry::Overhead(_) if self.terms.downsampling.is_some() => true,
            Entry::Overhead(overhead) => {
                let row = [
                    overhead.at.raw(),
                    overhead.locking_ns,
                    overhead.counters_ns,
                    overhead.threads_ns,
                    overhead.total_ns.saturating_add(overhead.handlers_ns),
                    overhead.handlers_ns,
                    overhead.interval_ns,
                ];
                self.sorted.overhead.push(&mut self.shared.rows, row)?;
                true
            }
            Entry::Trace(_) => true,
            // An entry of a kind that this build does not know is not in the profile.
            _ => false,
        };
        if let Some(thread) = self.sorted.threads.get_mut(self.at.0) {
            thread.delivery.delivered += u64::from(is_there);
        }
        Ok(())
    }

    /// Passes over an entry that an earlier profile has. Later samples may share its frames.
    fn skip(&mut self, entry: &Entry<'_>, frames: &mut SharedFrames) {
        if let Entry::Sample(sample) = entry {
            let _ = frames.of(sample);
        }
        self.sorted.count_outside(self.at.0, 1);
    }

    /// Counts an entry outside of the range. Notes the state that it leaves, if it is before the
    /// range.
    fn outside(&mut self, entry: &Entry<'_>, stack: &[Frame]) {
        self.sorted.count_outside(self.at.0, 1);
        let since = self.terms.window.since.unwrap_or_default();
        match entry {
            Entry::Sample(sample) if sample.at < since => self.wait_before_window(sample, stack),
            Entry::Counters(counters) if counters.at < since => {
                let at = counters.at.raw();
                for value in counters.values() {
                    if self.sorted.counters.has(value.cell) {
                        let row = [at, value.value.cast_unsigned(), value.number];
                        let before = self.sorted.counters_before.entry(value.cell);
                        let before = before.or_insert(row);
                        *before = row.max(*before);
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes the chunk of a marker, and its stack. A marker for another thread is copied to that
    /// thread and counts as delivered at once. A marker of the recording thread counts as delivered
    /// when it is written.
    fn marker(&mut self, marker: &MarkerEntry<'_>) -> io::Result<bool> {
        let (recorder, chunk) = self.at;
        let owner = self.sorted.owners.of_marker(recorder, marker);
        let kind = StackKind::of_caller(marker.stack.is_cut());
        let has_stack = !marker.stack.is_empty();
        let node = if has_stack {
            self.node(owner, marker.stack.frames(), kind)
        } else {
            None
        };
        let Some(thread) = self.sorted.threads.get_mut(owner) else {
            return Ok(false);
        };
        thread.markers = thread.markers.saturating_add(1);
        if owner != recorder {
            thread
                .reassigned_markers
                .push(&mut self.shared.rows, self.bytes, node)?;
            return Ok(true);
        }
        if thread.marker_chunks.last() != Some(&chunk) {
            thread.marker_chunks.push(chunk);
        }
        Ok(false)
    }

    /// Adds a sample. Returns whether its thread is in the profile.
    fn sample(&mut self, sample: &SampleEntry<'_>, stack: &[Frame]) -> io::Result<bool> {
        let cap = &mut self.shared.thread_cap;
        let owner = self
            .sorted
            .owners
            .note_sample(self.at.0, sample, || cap.one_more());
        let Some(owner) = owner else { return Ok(false) };
        self.sorted.add_sampled_only(owner, sample);
        let kind = StackKind::of_sample(sample);
        let node = self.node(owner, stack.iter().copied(), kind);
        let cpu = sample.cpu_ns.map_or(0, |ns| ns.saturating_add(1));
        let window = self.terms.window;
        let (at, ticks) = window.clip(sample.at, sample.ticks, self.terms.tick);
        let Some(thread) = self.sorted.threads.get_mut(owner) else {
            return Ok(false);
        };
        let ticks = thread.open_wait.new_ticks(sample, ticks);
        let previous = thread.previous_sample().filter(|_| sample.since_previous);
        let weight = previous.map_or_else(
            || self.terms.weight_of_ticks(ticks),
            |previous| self.terms.weight_of_time(at.since(previous)),
        );
        thread.busy_samples += u32::from(node.is_some() && !sample.is_idle());
        let row = [at.raw(), cpu, plus_one(node), weight];
        thread.push_sample(row, window, &mut self.shared.rows)?;
        thread.note_context(at, Some(sample.context), &mut self.shared.rows)?;
        self.note_wait(owner, sample, node, stack);
        Ok(true)
    }

    /// Notes the wait that a sample begins, or that there is none.
    fn note_wait(
        &mut self,
        owner: Place,
        sample: &SampleEntry<'_>,
        node: Option<NodeId>,
        stack: &[Frame],
    ) {
        let Some(thread) = self.sorted.threads.get_mut(owner) else {
            return;
        };
        let room = &mut self.shared.wait_frames;
        thread.open_wait = OpenWait {
            ticks: thread.open_wait.ticks_after(sample),
            ..OpenWait::of(sample, node)
        };
        thread.has_cpu = sample.cpu_ns.is_some();
        let before = thread.wait_stack.take();
        *room = room.saturating_sub(before.map_or(0, |before| before.frames.len()));
        let after = room.saturating_add(stack.len());
        if sample.waits && after <= MAX_WAIT_FRAMES {
            *room = after;
            let kind = StackKind::of_sample(sample);
            let frames = stack.into();
            thread.wait_stack = Some(Box::new(WaitStack { frames, kind }));
        }
    }

    /// Begins a thread that has waited since an earlier profile of the series.
    fn go_on_waiting(&mut self, place: Place) {
        let thread = self.sorted.threads.get(place);
        let wait = thread.and_then(|thread| thread.border.as_deref()?.wait.as_ref());
        let Some(stack) = wait.and_then(|wait| wait.stack.clone()) else {
            return;
        };
        let node = self.node(place, stack.frames.iter().copied(), stack.kind);
        if let Some(thread) = self.sorted.threads.get_mut(place) {
            thread.open_wait.node = u32::try_from(plus_one(node)).unwrap_or(0);
            let room = &mut self.shared.wait_frames;
            *room = room.saturating_add(stack.frames.len());
            thread.wait_stack = Some(Box::new(stack));
        }
    }

    /// Notes a wait that may reach into the range.
    fn wait_before_window(&mut self, sample: &SampleEntry<'_>, stack: &[Frame]) {
        let cap = &mut self.shared.thread_cap;
        let owner = if sample.waits {
            self.sorted
                .owners
                .note_sample(self.at.0, sample, || cap.one_more())
        } else {
            self.sorted.owners.of_sample(self.at.0, sample)
        };
        let Some(owner) = owner else { return };
        self.sorted.add_sampled_only(owner, sample);
        let kind = StackKind::of_sample(sample);
        let node = if sample.waits {
            self.node(owner, stack.iter().copied(), kind)
        } else {
            None
        };
        self.note_wait(owner, sample, node, stack);
    }

    fn allocation(&mut self, allocation: &AllocationEntry<'_>) -> io::Result<bool> {
        let node = self.node(
            self.at.0,
            allocation.stack.frames(),
            StackKind::of_caller(allocation.stack.is_cut()),
        );
        let row = [
            allocation.at.raw(),
            allocation.bytes.cast_unsigned(),
            allocation.address,
            plus_one(node),
        ];
        let Some(thread) = self.sorted.threads.get_mut(self.at.0) else {
            return Ok(false);
        };
        thread.allocations.push(&mut self.shared.rows, row)?;
        Ok(true)
    }

    fn node(
        &mut self,
        owner: Place,
        stack: impl ExactSizeIterator<Item = Frame>,
        kind: StackKind,
    ) -> Option<NodeId> {
        let ProfileTables {
            strings,
            libs,
            frames,
            stacks,
            ..
        } = &mut *self.shared;
        let definitions = &self.sorted.snapshot.definitions;
        let categories = self.terms.categories;
        let known = &mut *self.known;
        let mut translation = Translation {
            member: self.sorted.member,
            definitions,
            categories,
            libs,
            strings,
            known,
        };
        self.paths
            .node(owner, stack, kind, &mut translation, frames, stacks)
    }
}
