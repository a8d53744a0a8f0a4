//! One observed program: its file, its threads, and the pool that gets its samples.
//!
//! Used by the reader's thread. Invariants: the processor times of the samples of a thread add up to
//! the time of its last sample; what the program used besides is recorded at its end, without a
//! stack.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profiler_core::ids::{ProcessId, ThreadId};
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::internal::observed::{
    LoadedFile, ObservedFiles, ObservedProcess, ObservedStack, PoolThread,
};
use profiler_core::session::DropReason;
use profiler_core::time::Timestamp;
use profiler_observed::file::ObservedFile;
use profiler_observed::layout::{Ending, IS_CUT, PAGE, SampleHead};

use super::mapped_files::{ListingPause, mapped_files};
use super::remarks::remarks;

/// The pages of the ring are doubled when a reading finds this number of samples, or one was
/// refused.
const CROWDED: usize = 8;
/// The least time between two readings.
const PASS: Duration = Duration::from_millis(20);
/// The most refused samples that one reading counts: the number is the program's own claim.
const MAX_COUNTED: u64 = 10_000;
/// The most grants of 16 pages.
const MAX_GRANTED: u8 = 15;

/// A sample that was read, before the samples of all threads are sorted.
#[derive(Debug)]
struct ReadSample {
    head: SampleHead,
    /// The place of its words among those of all samples.
    words: std::ops::Range<usize>,
}

/// A thread of the program.
#[derive(Debug)]
struct ObservedThread {
    /// How often the row was used when this thread had it.
    uses: u32,
    tid: ThreadId,
    /// Its row in the pool; `None` for the main thread, and if the pool has no room.
    row: Option<PoolThread>,
    /// The processor time up to which it has samples.
    sampled_ns: u64,
}

/// A program that is observed.
#[derive(Debug)]
pub(super) struct ObservedProgram {
    pub(super) pid: ProcessId,
    path: PathBuf,
    file: ObservedFile,
    process: ObservedProcess,
    threads: HashMap<u32, ObservedThread>,
    loaded: Vec<LoadedFile>,
    listing: ListingPause,
    /// The updates of the chunk manager since they were last taken.
    updates: Arc<Mutex<ManagerUpdate>>,
    /// The processor time of the process when this program began.
    base_ns: u64,
    /// The processor time in samples.
    recorded_ns: u64,
    refused: u64,
    interval_ns: u64,
    samples: Vec<ReadSample>,
    words: Vec<u64>,
}

impl ObservedProgram {
    /// Observes a program. `base_ns` is the processor time of its process when it began.
    pub(super) fn new(
        pid: ProcessId,
        (path, file): (PathBuf, ObservedFile),
        process: ObservedProcess,
        (base_ns, interval_ns): (u64, u64),
    ) -> Self {
        let updates = Arc::new(Mutex::new(ManagerUpdate::None));
        let folded = Arc::clone(&updates);
        process.pool().set_chunk_listener(move |update| {
            folded
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .fold(update);
        });
        Self {
            pid,
            path,
            file,
            process,
            threads: HashMap::new(),
            loaded: Vec::new(),
            listing: ListingPause::new(),
            updates,
            base_ns,
            recorded_ns: 0,
            refused: 0,
            interval_ns: interval_ns.max(1),
            samples: Vec::new(),
            words: Vec::new(),
        }
    }

    /// The updates of the chunk manager since the last call.
    pub(super) fn take_updates(&self) -> ManagerUpdate {
        self.updates
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// The writer of the pool.
    pub(super) const fn process(&self) -> &ObservedProcess {
        &self.process
    }

    /// Sets the files that the program has loaded.
    pub(super) fn set_loaded(&mut self, files: &mut ObservedFiles, loaded: Vec<LoadedFile>) {
        self.process.set_loaded(files, &loaded);
        self.loaded = loaded;
    }

    /// Whether the process goes on although the observation of this program has ended, as the file
    /// says: it executes another program, or records itself.
    pub(super) fn goes_on(&self) -> bool {
        let endings = [Ending::Exec as u32, Ending::Recorder as u32];
        self.file
            .header()
            .is_ok_and(|header| endings.contains(&header.ending))
    }

    /// Whether a recorder of the program has begun, as the file says.
    pub(super) fn has_recorder(&self) -> bool {
        self.file
            .header()
            .is_ok_and(|header| header.ending == Ending::Recorder as u32)
    }

    /// The processor time of the process at the end of the program, if it has stored that.
    pub(super) fn ended_cpu_ns(&self) -> Option<u64> {
        let header = self.file.header().ok()?;
        (header.ending != Ending::None as u32).then_some(header.ended_cpu_ns)
    }

    /// Reads and records all samples. With `discard` they are only read. Returns their number.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn pass(&mut self, files: &mut ObservedFiles, discard: bool) -> io::Result<usize> {
        self.samples.clear();
        self.words.clear();
        let (samples, words) = (&mut self.samples, &mut self.words);
        let taken = self.file.drain(|head, stack| {
            let start = words.len();
            let chunks = stack.as_chunks::<8>().0.iter();
            words.extend(chunks.map(|bytes| u64::from_ne_bytes(*bytes)));
            samples.push(ReadSample {
                head: *head,
                words: start..words.len(),
            });
        })?;
        if taken == 0 {
            return Ok(0);
        }
        self.samples.sort_unstable_by_key(|sample| sample.head.at);
        self.find_new_files(files);
        for sample in std::mem::take(&mut self.samples) {
            self.record(files, &sample, discard);
        }
        self.grant(taken);
        self.process.pool().maintain();
        Ok(taken)
    }

    /// Looks for files that were loaded later, if a sample is in code that no known file has.
    fn find_new_files(&mut self, files: &mut ObservedFiles) {
        let is_unknown = |sample: &ReadSample| !self.process.knows(sample.head.pc);
        let has_unknown = self.samples.iter().any(is_unknown) || self.process.take_unknown();
        if !self.listing.is_over(PASS) || !has_unknown {
            return;
        }
        let is_known = |file: &LoadedFile| {
            let start = file.addresses.start;
            let has = |known: &LoadedFile| known.addresses.contains(&start);
            self.loaded.iter().any(has)
        };
        let mut new = mapped_files(self.pid);
        new.retain(|file| !is_known(file));
        self.listing.begin(!new.is_empty());
        if !new.is_empty() {
            self.loaded.append(&mut new);
            self.process.set_loaded(files, &self.loaded);
        }
    }

    /// Gives the program more room if it needs it.
    fn grant(&mut self, taken: usize) {
        let refused = self
            .file
            .header()
            .map_or(self.refused, |header| header.refused);
        if taken >= CROWDED || refused > self.refused {
            let more = (self.file.granted() * 2).clamp(1, MAX_GRANTED);
            // Without room in the file system, the program goes on with what it has.
            let _ = self.file.grant(more);
        }
        let more = refused.saturating_sub(self.refused).min(MAX_COUNTED);
        (0..more).for_each(|_| self.process.pool().count_drop(DropReason::Full));
        self.refused = refused;
    }

    /// The memory of the program's file, as far as it has been granted.
    pub(super) fn ring_bytes(&self) -> u64 {
        let granted = u64::from(self.file.granted()) * 16 * PAGE as u64;
        ObservedFile::first_bytes() + granted
    }

    fn record(&mut self, files: &mut ObservedFiles, sample: &ReadSample, discard: bool) {
        let head = &sample.head;
        self.follow_thread(head);
        let Some(thread) = self.threads.get_mut(&head.row) else {
            return;
        };
        let cpu_ns = head.cpu_ns.saturating_sub(thread.sampled_ns);
        thread.sampled_ns = thread.sampled_ns.max(head.cpu_ns);
        if discard {
            return;
        }
        self.recorded_ns = self.recorded_ns.saturating_add(cpu_ns);
        let tid = thread.tid;
        let stack = ObservedStack {
            at: Timestamp::from_raw(head.at),
            cpu_ns,
            ticks: ticks(cpu_ns, self.interval_ns),
            pc: head.pc,
            sp: head.sp,
            fp: head.fp,
            lr: head.lr,
            words: self.words.get(sample.words.clone()).unwrap_or_default(),
            is_cut: head.flags & IS_CUT != 0,
        };
        self.process.add(files, tid, &stack);
    }

    /// Notes the thread of a sample, unless it is known.
    fn follow_thread(&mut self, head: &SampleHead) {
        if self
            .threads
            .get(&head.row)
            .is_some_and(|known| known.uses == head.uses)
        {
            return;
        }
        // The row had another thread before.
        if let Some(before) = self.threads.remove(&head.row) {
            self.end_thread(&before, Timestamp::from_raw(head.at));
        }
        let is_main = head.row == 0;
        let tid = if is_main {
            ThreadId::new(u64::from(self.pid.get()))
        } else {
            ThreadId::new(u64::from(head.tid.unsigned_abs()))
        };
        let row = if is_main {
            None
        } else {
            let name = name_of_thread(self.pid, tid);
            let at = Timestamp::from_raw(head.at);
            self.process.pool().add_thread(tid, &name, at)
        };
        // The clock of the main thread goes on from the program before; a new thread's begins at 0.
        let sampled_ns = if is_main { self.base_ns } else { 0 };
        self.threads.insert(
            head.row,
            ObservedThread {
                uses: head.uses,
                tid,
                row,
                sampled_ns,
            },
        );
    }

    fn end_thread(&self, thread: &ObservedThread, at: Timestamp) {
        if let Some(row) = thread.row {
            self.process.pool().end_thread(row, at);
        }
    }

    /// Records what the program used besides its samples, ends its pool, and removes its file.
    pub(super) fn end(mut self, files: &mut ObservedFiles, discard: bool) {
        let _ = self.pass(files, discard);
        let header = self.file.header().unwrap_or_default();
        let is_orderly = header.ending != Ending::None as u32;
        let now = Timestamp::now();
        let at = if is_orderly {
            Timestamp::from_raw(header.ended).min(now)
        } else {
            now
        };
        let used = header.ended_cpu_ns.saturating_sub(self.base_ns);
        let rest = used.saturating_sub(self.recorded_ns);
        if is_orderly && rest > 0 && !discard {
            let main = ThreadId::new(u64::from(self.pid.get()));
            let ticks = ticks(rest, self.interval_ns);
            self.process.add_time(main, at, rest, ticks);
        }
        let told = is_orderly.then_some(used);
        for remark in remarks(&header, self.recorded_ns, told) {
            self.process.pool().add_notice(remark);
        }
        for thread in std::mem::take(&mut self.threads).into_values() {
            self.end_thread(&thread, at);
        }
        self.process.close(is_orderly);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// How many ticks a time stands for.
fn ticks(cpu_ns: u64, interval_ns: u64) -> u64 {
    (cpu_ns.saturating_add(interval_ns / 2) / interval_ns).max(1)
}

/// The system's name of a thread; empty if it has ended.
fn name_of_thread(pid: ProcessId, tid: ThreadId) -> String {
    let name = std::fs::read(format!("/proc/{pid}/task/{}/comm", tid.get())).unwrap_or_default();
    String::from_utf8_lossy(&name).trim().to_owned()
}
