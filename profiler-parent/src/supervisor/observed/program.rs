//! One observed program: its file, its threads, and the pool that gets its samples.
//!
//! Used by the reader's thread. Invariants: the processor times of the samples of a thread add up
//! to the time of its last sample; what the program used besides is recorded at its end, without a
//! stack; nothing is recorded of a program that its process has left.

use std::cell::OnceCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use profiler_core::ids::{ProcessId, ThreadId};
use profiler_core::internal::crash_note::record_observed;
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::internal::observed::{
    AwaitedName, BegunSample, LoadedFile, LookBudget, LookHelp, ObservedClock, ObservedFiles,
    ObservedPlace, ObservedProcess, ObservedStack, ObservedThreads, SampledThread, WaitingThread,
    WantedSample,
};
use profiler_core::session::{DropReason, SessionParams};
use profiler_core::time::Timestamp;
use profiler_observed::layout::{Ending, IS_CRASH, IS_CRASH_MAPS, IS_CUT, MAX_ROWS, SampleHead};
use profiler_symbols::SymbolStore;

use crate::process_table::ObservedTime;

use super::crash::{CrashStack, CrashTexts, words_to_bytes};
use super::mapped_files::{ListingPause, files_in, mapped_files};
use super::module_places;
use super::outside::TIME_ONLY;
use super::program_file::ProgramFile;
use super::remarks::{NO_WAITING_STACKS, remarks};
use crate::supervisor::waits::WaitNames;

/// The pages of the ring are doubled when a reading finds this number of samples, or one was
/// refused.
const CROWDED: usize = 8;
/// The least time between two readings.
const PASS: Duration = Duration::from_millis(20);
/// The least time between two looks.
const LOOK: Duration = Duration::from_millis(40);
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

/// A program that is observed.
#[derive(Debug)]
pub(super) struct ObservedProgram {
    pub(super) pid: ProcessId,
    file: ProgramFile,
    process: ObservedProcess,
    threads: ObservedThreads,
    /// Whether its process was found to run without its file.
    has_gone: OnceCell<bool>,
    /// Whether the profile tells that waiting threads have no stacks.
    is_refusal_told: bool,
    loaded: Vec<LoadedFile>,
    listing: ListingPause,
    symbols: SymbolStore,
    /// The updates of the chunk manager since they were last taken.
    updates: Arc<Mutex<ManagerUpdate>>,
    /// The processor time of the process when this program began.
    base_ns: u64,
    /// The processor time in samples of the program. At its end, the rest of its time is added,
    /// which is recorded without a stack.
    recorded_ns: u64,
    /// The processor time in samples with stacks.
    sampled_ns: u64,
    /// The processor time of samples that were not recorded.
    discarded_ns: u64,
    refused: u64,
    interval_ns: u64,
    samples: Vec<ReadSample>,
    words: Vec<u64>,
    /// The stack of its crash, until that is recorded.
    crash: Option<CrashStack>,
    has_crashed: bool,
    /// Whether the list of mappings of its crash was read. Another one is ignored: a process could
    /// write any number of them.
    has_crash_maps: bool,
}

impl ObservedProgram {
    /// Observes a program, in a session with these parameters.
    pub(super) fn new(
        place: ObservedPlace,
        file: ProgramFile,
        process: ObservedProcess,
        (params, symbols): (&SessionParams, &SymbolStore),
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
            pid: place.pid,
            file,
            threads: ObservedThreads::new(&process, place, params),
            process,
            has_gone: OnceCell::new(),
            is_refusal_told: false,
            loaded: Vec::new(),
            listing: ListingPause::new(),
            symbols: symbols.clone(),
            updates,
            base_ns: place.base_ns,
            recorded_ns: 0,
            sampled_ns: 0,
            discarded_ns: 0,
            refused: 0,
            interval_ns: params.interval_ns.max(1),
            samples: Vec::new(),
            words: Vec::new(),
            crash: None,
            has_crashed: false,
            has_crash_maps: false,
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
        module_places::keep(&loaded, &self.symbols);
        self.process.set_loaded(files, &loaded);
        self.loaded = loaded;
    }

    /// Whether the process goes on although the observation of this program has ended, as the file
    /// says: it executes another program, or records itself.
    pub(super) fn goes_on(&self) -> bool {
        let endings = [Ending::Exec as u32, Ending::Recorder as u32];
        let header = self.file.header();
        header.is_ok_and(|header| endings.contains(&header.ending)) || self.has_left()
    }

    /// Whether a recorder of the program has begun, as the file says.
    pub(super) fn has_recorder(&self) -> bool {
        self.file
            .header()
            .is_ok_and(|header| header.ending == Ending::Recorder as u32)
    }

    /// Whether the process is a forked child that has not executed a program before this one,
    /// according to the file.
    pub(super) fn is_fork(&self) -> bool {
        self.file
            .header()
            .is_ok_and(|header| header.began_cpu_ns == 0)
    }

    /// Whether the program is observed still, as its file says.
    fn is_running(&self) -> bool {
        self.file
            .header()
            .is_ok_and(|header| header.ending == Ending::None as u32)
    }

    /// Whether its process has no file, and is observed from outside.
    pub(super) const fn is_outside(&self) -> bool {
        self.file.is_outside()
    }

    /// Ends its observation from outside, unless that has ended. `clock_ns` is the last time that
    /// the clock of its process has shown.
    pub(super) fn end_outside(&mut self, ending: Ending, clock_ns: Option<u64>) {
        self.file.end(ending, clock_ns);
    }

    /// Whether its process has executed another program, as far as is known.
    pub(super) fn has_left(&self) -> bool {
        let may_have = self.is_outside() || self.threads.is_replaced();
        if !may_have || self.has_recorder() {
            return false;
        }
        let header = self.file.header();
        let has_stored = header.is_ok_and(|header| header.ending == Ending::Exec as u32);
        // The process may have changed only what the system shows of its memory.
        let has_gone = || !self.file.is_mapped_by(self.pid);
        has_stored || self.threads.is_replaced() && *self.has_gone.get_or_init(has_gone)
    }

    /// The processor time that the program has used until its end, if it has stored that.
    pub(super) fn used_ns(&self) -> u64 {
        let ended_ns = self.ended_cpu_ns().unwrap_or(u64::MAX);
        ended_ns.saturating_sub(self.base_ns)
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
        if self.crash.is_some() {
            self.record_crash(files, discard);
        }
        self.grant(taken);
        self.process.pool().maintain();
        Ok(taken)
    }

    /// Records the crash of the program, if its file has one that is not recorded.
    fn record_crash(&mut self, files: &mut ObservedFiles, discard: bool) {
        let header = self.file.header().unwrap_or_default();
        if self.has_crashed || header.crash_signal == 0 {
            return;
        }
        self.has_crashed = true;
        let stack = self.crash.take().unwrap_or_else(CrashStack::missing);
        if let Some(texts) = CrashTexts::of(&header, &stack).filter(|_| !discard) {
            let thread = self.threads.thread_numbered(header.crash_tid, header.pid);
            let marker = texts.marker();
            let place = (&mut self.process, files);
            record_observed(place, thread, &stack.observed(), &marker);
        }
    }

    /// Looks for files that were loaded later, if a sample is in code that no known file has.
    fn find_new_files(&mut self, files: &mut ObservedFiles) {
        let is_unknown = |sample: &ReadSample| !self.process.knows(sample.head.pc);
        let has_unknown = self.samples.iter().any(is_unknown) || self.process.take_unknown();
        if self.listing.is_over(PASS) && has_unknown {
            let known = (self.pid, &mut self.loaded, &mut self.listing);
            find_files(known, (files, &self.symbols), &mut self.process);
        }
    }

    /// Notes what the clock of its process says.
    pub(super) fn note_clock(&mut self, clock: &ObservedClock) {
        self.threads.note_clock(clock);
    }

    /// Whether a thread of it may have run since it was looked at.
    pub(super) const fn needs_look(&self) -> bool {
        self.threads.needs_look()
    }

    /// Whether its threads are to be looked at now.
    pub(super) fn is_look_due(&mut self) -> bool {
        self.threads.is_look_due()
    }

    /// Whether looks between the passes are needed.
    pub(super) fn needs_frequent_looks(&self) -> bool {
        self.threads.needs_frequent_looks()
    }

    /// Records where its threads wait, and its counters.
    pub(super) fn look(
        &mut self,
        files: &mut ObservedFiles,
        names: &mut WaitNames,
        budget: &mut LookBudget,
    ) {
        if self.goes_on() {
            return self.threads.leave(&mut self.process);
        }
        let has_found = self.is_running() && {
            let mut help = help(
                self.pid,
                (&mut self.loaded, &mut self.listing),
                &self.symbols,
                names,
            );
            let process = &mut self.process;
            self.threads.begin_look(process, budget, &mut help)
        };
        // The samples that were taken before the stacks were copied. If the process has executed
        // another program before, this one's file says so.
        if has_found && self.pass(files, false).is_ok() && self.is_running() {
            let mut help = help(
                self.pid,
                (&mut self.loaded, &mut self.listing),
                &self.symbols,
                names,
            );
            self.threads.end_look(files, &mut self.process, &mut help);
        }
        if self.threads.take_refused() && !std::mem::replace(&mut self.is_refusal_told, true) {
            self.process.pool().add_notice(NO_WAITING_STACKS.to_owned());
        }
        self.process.pool().maintain();
    }

    /// Records the waits for which an entry is due, or all waits up to now. Returns whether there
    /// were any.
    pub(super) fn record_waits(&mut self, is_asked: bool) -> bool {
        let has_recorded = self.threads.record_waits(&mut self.process, is_asked);
        if has_recorded {
            self.process.pool().maintain();
        }
        has_recorded
    }

    /// Ends all waits, because nothing is recorded from now on.
    pub(super) fn suspend(&mut self) {
        self.threads.suspend(&mut self.process);
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
        self.file.bytes()
    }

    fn record(&mut self, files: &mut ObservedFiles, sample: &ReadSample, discard: bool) {
        let head = &sample.head;
        let words = || self.words.get(sample.words.clone()).unwrap_or_default();
        if head.flags & IS_CRASH_MAPS != 0 {
            if std::mem::replace(&mut self.has_crash_maps, true) {
                return;
            }
            let mapped = files_in(&words_to_bytes(words()), self.pid);
            add_files(
                mapped,
                (&mut self.loaded, files, &self.symbols),
                &mut self.process,
            );
            return;
        }
        if head.flags & IS_CRASH != 0 {
            self.crash = Some(CrashStack::new(head, words()));
            return;
        }
        if head.row as usize >= MAX_ROWS {
            return;
        }
        let at = Timestamp::from_raw(head.at);
        let sampled = SampledThread {
            row: head.row,
            uses: head.uses,
            number: head.tid,
            at,
            cpu_ns: head.cpu_ns,
        };
        let threads = &mut self.threads;
        let BegunSample {
            tid,
            cpu_ns,
            ticks,
            wanted,
        } = threads.begin_sample(&mut self.process, &sampled, discard);
        if wanted == WantedSample::None {
            self.discarded_ns = self.discarded_ns.saturating_add(cpu_ns);
            return;
        }
        self.recorded_ns = self.recorded_ns.saturating_add(cpu_ns);
        if wanted == WantedSample::Time || head.flags & TIME_ONLY != 0 {
            self.process.add_time(tid, at, cpu_ns, ticks);
            return;
        }
        let stack = ObservedStack {
            at,
            cpu_ns,
            ticks,
            pc: head.pc,
            sp: head.sp,
            fp: head.fp,
            lr: head.lr,
            words: words(),
            is_cut: head.flags & IS_CUT != 0,
        };
        if !stack.words.is_empty() {
            self.sampled_ns = self.sampled_ns.saturating_add(cpu_ns);
        }
        self.process.add(files, tid, &stack);
    }

    /// The processor time of the program, if the clock of its process shows `clock_ns`.
    pub(super) fn time(&self, clock_ns: Option<u64>) -> ObservedTime {
        let used_ns = clock_ns.map_or(0, |clock_ns| clock_ns.saturating_sub(self.base_ns));
        let recorded_ns = self.recorded_ns.saturating_add(self.threads.stackless_ns());
        let left_out_ns = self.left_out_ns();
        let known_ns = recorded_ns.saturating_add(left_out_ns);
        ObservedTime {
            used_ns: used_ns.max(known_ns).saturating_sub(left_out_ns),
            recorded_ns,
            sampled_ns: self.sampled_ns,
        }
    }

    /// The known processor time that is not to be recorded.
    const fn left_out_ns(&self) -> u64 {
        self.discarded_ns.saturating_add(self.threads.skipped_ns())
    }

    /// Records what the program used besides its samples, ends its pool, and removes its file.
    /// Returns its processor time. `clock_ns` is the last time that was read from the clock of its
    /// process.
    pub(super) fn end(
        mut self,
        files: &mut ObservedFiles,
        discard: bool,
        clock_ns: Option<u64>,
    ) -> ObservedTime {
        let _ = self.pass(files, discard);
        self.record_crash(files, discard);
        self.file.end(Ending::Exit, clock_ns);
        let header = self.file.header().unwrap_or_default();
        let is_orderly = header.ending != Ending::None as u32;
        let now = Timestamp::now();
        let at = if is_orderly {
            Timestamp::from_raw(header.ended).min(now)
        } else {
            now
        };
        let ended_cpu_ns = is_orderly.then_some(header.ended_cpu_ns);
        // A program that was killed, or whose filter forbids it to read the clock, stores no time.
        let is_all_its_own = is_orderly || !self.threads.is_replaced();
        let known_cpu_ns = ended_cpu_ns.or(clock_ns.filter(|_| is_all_its_own));
        let used = known_cpu_ns.map(|cpu_ns| cpu_ns.saturating_sub(self.base_ns));
        self.threads
            .end(&mut self.process, (at, ended_cpu_ns), discard);
        let stackless = self.threads.stackless_ns();
        let known = [self.recorded_ns, self.left_out_ns(), stackless];
        let rest = known
            .into_iter()
            .fold(used.unwrap_or(0), u64::saturating_sub);
        if rest > 0 && !discard && self.threads.wants_rest() {
            let main = ThreadId::new(u64::from(self.pid.get()));
            let ticks = ticks(rest, self.interval_ns);
            self.process.add_time(main, at, rest, ticks);
            self.recorded_ns = self.recorded_ns.saturating_add(rest);
        }
        for remark in remarks(&header, self.sampled_ns, used) {
            self.process.pool().add_notice(remark);
        }
        let time = self.time(known_cpu_ns);
        self.process.close(is_orderly);
        self.file.remove();
        time
    }
}

/// How many ticks a time stands for.
fn ticks(cpu_ns: u64, interval_ns: u64) -> u64 {
    (cpu_ns.saturating_add(interval_ns / 2) / interval_ns).max(1)
}

const fn help<'a>(
    pid: ProcessId,
    (loaded, listing): (&'a mut Vec<LoadedFile>, &'a mut ListingPause),
    symbols: &'a SymbolStore,
    names: &'a mut WaitNames,
) -> Help<'a> {
    Help {
        pid,
        loaded,
        listing,
        symbols,
        names,
    }
}

/// What a look at a program needs.
struct Help<'a> {
    pid: ProcessId,
    loaded: &'a mut Vec<LoadedFile>,
    listing: &'a mut ListingPause,
    symbols: &'a SymbolStore,
    names: &'a mut WaitNames,
}

impl LookHelp for Help<'_> {
    fn find_files(&mut self, files: &mut ObservedFiles, process: &mut ObservedProcess) -> bool {
        let known = (self.pid, &mut *self.loaded, &mut *self.listing);
        known.2.is_over(LOOK) && find_files(known, (files, self.symbols), process)
    }

    fn for_whom(&mut self, thread: &WaitingThread<'_>) -> AwaitedName {
        self.names.for_whom(self.pid, thread)
    }
}

/// Looks for files that a process has loaded since the last list. Returns whether there are any.
fn find_files(
    (pid, loaded, listing): (ProcessId, &mut Vec<LoadedFile>, &mut ListingPause),
    (files, symbols): (&mut ObservedFiles, &SymbolStore),
    process: &mut ObservedProcess,
) -> bool {
    let has_new = add_files(mapped_files(pid), (loaded, files, symbols), process);
    listing.begin(has_new);
    has_new
}

/// Adds those of the mapped files that are new. Returns whether there are any.
fn add_files(
    mut mapped: Vec<LoadedFile>,
    (loaded, files, symbols): (&mut Vec<LoadedFile>, &mut ObservedFiles, &SymbolStore),
    process: &mut ObservedProcess,
) -> bool {
    let is_known = |file: &LoadedFile| {
        let start = file.addresses.start;
        loaded.iter().any(|known| known.addresses.contains(&start))
    };
    mapped.retain(|file| !is_known(file));
    let has_new = !mapped.is_empty();
    if has_new {
        module_places::keep(&mapped, symbols);
        loaded.append(&mut mapped);
        process.set_loaded(files, loaded);
    }
    has_new
}
