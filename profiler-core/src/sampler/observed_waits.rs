//! Looks at the threads of an observed process from outside: where they wait, and how much
//! processor time they use without samples.
//!
//! Used by the session's reader of observed processes, one [`ObservedThreads`] for each program.
//! The entries are those that a recorder in the process writes for its own waiting threads
//! (`looking`, `wait_period`). The reader calls, in each pass:
//!
//! ```text
//! has_run        ([`ObservedClock`]) reads the process's clock: if it has not changed, no thread
//!                has run, there are no samples, and all waits that are known go on
//! note_clock     before anything else
//! begin_sample   for each sample of the process
//! begin_look     if `is_look_due`: reads states, copies stacks
//! begin_sample   for the samples that were taken before the stacks were copied
//! end_look       unwinds and records
//! ```
//!
//! Invariants: nothing is read of another process that gets the number of this one; each processor
//! time is recorded once; looks are as far apart as `look_pace` says.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use super::alternation::frequent_pause;
use super::covered_time::CoveredTime;
use super::kept_process::{KeptProcess, OpenProcess};
use super::look_pace::LookPace;
use super::observed::{ObservedFiles, ObservedProcess};
use super::observed_clock::ObservedClock;
use super::observed_counters::ObservedCounters;
use super::observed_look::{
    LookBudget, LookHelp, LookTaken, LookTimes, add_time, end_wait, reader_time,
};
use super::observed_place::ObservedPlace;
use super::observed_threads::{GoneRows, ObservedThread, ThreadTable};
use super::schedule::now;
use super::targets::listing_pause;
use crate::ids::ThreadId;
use crate::params::{Features, SessionParams};
use crate::sys::native::other_process::{OtherProcess, ProgramPlace};
use crate::sys::native::timer;
use crate::thread_filter::ThreadFilter;
use crate::time::Timestamp;

/// The shortest time between two values of the counters.
const COUNTS: Duration = Duration::from_millis(10);
/// The processor time that a process may use for its end, in nanoseconds: if it has used no more
/// since its clock was last read, its threads have waited until then.
const END_NS: u64 = 1_000_000;

/// A thread that has taken a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampledThread {
    /// Its row in the process's file; 0 is the main thread's.
    pub row: u32,
    /// Which use of the row this is.
    pub uses: u32,
    /// The thread's number, as the process claims.
    pub number: i32,
    /// When the sample was taken.
    pub at: Timestamp,
    /// The thread's processor time at the sample, in nanoseconds.
    pub cpu_ns: u64,
}

/// The part of a sample that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedSample {
    /// Its stack and its processor time.
    Stack,
    /// Its processor time.
    Time,
    /// Nothing.
    None,
}

/// What is recorded of a sample.
#[derive(Clone, Copy, Debug)]
pub struct BegunSample {
    /// The thread.
    pub tid: ThreadId,
    /// The processor time since its last sample, in nanoseconds.
    pub cpu_ns: u64,
    /// The ticks that the sample stands for.
    pub ticks: u64,
    /// The part that is recorded.
    pub wanted: WantedSample,
}

/// The threads of an observed program.
#[derive(Debug)]
pub struct ObservedThreads {
    place: ObservedPlace,
    process: KeptProcess,
    threads: ThreadTable,
    counters: ObservedCounters,
    times: LookTimes,
    /// Whether the session has samples at intervals.
    is_periodic: bool,
    /// Whether stacks are recorded, including those of waits.
    looks: bool,
    /// Whether the processor time of threads that no filter selects is recorded, too.
    has_time_of_all: bool,
    /// The clock as it was noted last.
    clock: ObservedClock,
    /// Whether a thread may have run since it was looked at.
    needs_look: bool,
    pace: LookPace,
    /// The earliest time of the next values of the counters.
    next_count: Instant,
    next_list: Instant,
    listing_cost: Duration,
    /// The thread after which the next look goes on.
    looked_last: ThreadId,
    /// Where the program was at the first look.
    program: Option<ProgramPlace>,
    /// Whether another program was executed in place of this one.
    is_replaced: bool,
    taken: LookTaken,
    is_refused: bool,
    gone: GoneRows,
    /// Processor time that looks have recorded without stacks.
    stackless_ns: u64,
    /// Processor time that is left out because nothing was recorded at that time.
    skipped_ns: u64,
}

impl ObservedThreads {
    /// For a process whose samples `process` gets, in a session with these parameters.
    #[must_use]
    pub fn new(process: &ObservedProcess, place: ObservedPlace, params: &SessionParams) -> Self {
        let main = ThreadId::new(u64::from(place.pid.get()));
        let filter = ThreadFilter::new(&params.filters, place.pid);
        let interval_ns = params.interval_ns.max(1);
        let is_periodic = !params.features.contains(Features::NO_SAMPLING);
        let system_tick = u64::try_from(timer::tick().as_nanos()).unwrap_or(0);
        Self {
            place,
            process: KeptProcess::new(),
            threads: ThreadTable::new(
                (main, place.checked_start(process)),
                (place.base_ns, place.is_outside),
                filter,
            ),
            counters: ObservedCounters::new(params.features),
            times: LookTimes {
                tick: process.pool().ticks_in(interval_ns).max(1),
                interval_ns,
                sampling_ns: interval_ns.max(system_tick),
            },
            is_periodic,
            looks: is_periodic && params.features.contains(Features::STACK_WALK),
            has_time_of_all: params.features.contains(Features::CPU_ALL_THREADS),
            clock: ObservedClock::new(&place),
            needs_look: true,
            pace: LookPace::new(),
            next_count: now(),
            next_list: now(),
            listing_cost: Duration::ZERO,
            looked_last: ThreadId::new(0),
            program: None,
            is_replaced: false,
            taken: LookTaken::default(),
            is_refused: false,
            gone: GoneRows::default(),
            stackless_ns: 0,
            skipped_ns: 0,
        }
    }

    /// The processor time that looks have recorded without stacks, in nanoseconds.
    #[must_use]
    pub const fn stackless_ns(&self) -> u64 {
        self.stackless_ns
    }

    /// The processor time that looks have left out because nothing was recorded at that time, in
    /// nanoseconds.
    #[must_use]
    pub const fn skipped_ns(&self) -> u64 {
        self.skipped_ns
    }

    /// Notes what the process's clock says.
    pub fn note_clock(&mut self, clock: &ObservedClock) {
        if clock.since != self.clock.since {
            self.clock.until = clock.until_before;
            self.prolong();
            self.needs_look = true;
        }
        self.clock = *clock;
    }

    /// Prolongs the waits of all threads that were seen to wait while no thread ran.
    fn prolong(&mut self) {
        let Some(until) = self.clock.until else {
            return;
        };
        for thread in self.threads.all.values_mut() {
            if thread.waits.was_seen_since(self.clock.since) {
                thread.waits.lasts_until(until);
            }
        }
    }

    /// Notes a sample of a thread, and ends its wait. With `discard`, nothing of the sample is
    /// recorded.
    pub fn begin_sample(
        &mut self,
        process: &mut ObservedProcess,
        sample: &SampledThread,
        discard: bool,
    ) -> BegunSample {
        let at = sample.at;
        let tick = self.times.tick;
        let row = (sample.row, sample.uses);
        let gone = &mut self.gone;
        let (tid, thread) = self.threads.of_row(row, sample.number, |tid, mut ended| {
            end_wait(process, (tid, &mut ended), tick, true);
            gone.end(&ended, process, at);
        });
        let is_new = !std::mem::replace(&mut thread.is_sampled, true);
        let used = sample.cpu_ns.saturating_sub(thread.recorded_ns);
        thread.recorded_ns = thread.recorded_ns.max(sample.cpu_ns);
        thread.sampled_at = thread.sampled_at.max(at);
        let time = self.times.time_of(used);
        let ran = Timestamp::from_raw(at.raw().saturating_sub(time));
        if thread.is_after_pause {
            thread.waits.time = CoveredTime::since(ran);
        }
        let unrecorded = thread.waits.end_at_sample(ran, tick);
        thread.waits.has_run(false);
        let ticks = thread.waits.time.run(at, time, tick);
        if let Some(unrecorded) = unrecorded.filter(|_| !discard) {
            process.repeat_wait(tid, unrecorded, false);
        }
        if is_new {
            self.find_name(tid);
        }
        let wanted = if discard {
            WantedSample::None
        } else {
            self.wanted(tid)
        };
        if wanted != WantedSample::None
            && let Some(thread) = self.threads.all.get_mut(&tid)
        {
            thread.begin_row(process, tid, at);
        }
        BegunSample {
            tid,
            cpu_ns: used,
            ticks,
            wanted,
        }
    }

    /// The part of a thread's samples that is recorded with the session's filters and features.
    fn wanted(&self, tid: ThreadId) -> WantedSample {
        if !self.is_periodic {
            return WantedSample::None;
        }
        match (self.threads.selects_known(tid), self.looks) {
            (true, true) => WantedSample::Stack,
            (true, false) => WantedSample::Time,
            (false, _) if self.has_time_of_all => WantedSample::Time,
            (false, _) => WantedSample::None,
        }
    }

    /// Whether the processor time that is in no sample is recorded, as time of the main thread.
    #[must_use]
    pub fn wants_rest(&self) -> bool {
        self.wanted(self.threads.main()) != WantedSample::None
    }

    /// Finds the name of a thread at its first sample, unless the thread was listed before.
    fn find_name(&mut self, tid: ThreadId) {
        let is_listed = |thread: &ObservedThread| thread.listed.is_some();
        if !self.threads.all.get(&tid).is_some_and(is_listed)
            && let Some(open) = self.process.open(&self.place)
        {
            self.threads.name_sampled(&open.process, tid);
            self.process.keep(open, self.needs_look);
        }
    }

    /// Whether a thread may have run since it was looked at.
    #[must_use]
    pub const fn needs_look(&self) -> bool {
        self.needs_look && self.is_periodic && !self.is_replaced && self.place.start.is_some()
    }

    /// Whether a look is due. To be called once in a pass, and once between two passes if looks are
    /// frequent.
    #[must_use]
    pub fn is_look_due(&mut self) -> bool {
        self.needs_look() && self.pace.is_due()
    }

    /// The processor time of the calling thread so far, which looks at threads.
    #[must_use]
    pub fn reader_time() -> Duration {
        reader_time()
    }

    /// The average time between two looks at threads that alternate, if a look takes `cost`.
    #[must_use]
    pub fn frequent_pause(cost: Duration) -> Duration {
        frequent_pause(cost)
    }

    /// Whether looks between the passes are needed, on average [`Self::frequent_pause`] apart,
    /// because threads run and wait in turn.
    #[must_use]
    pub fn needs_frequent_looks(&self) -> bool {
        self.pace.is_frequent(now())
    }

    /// Begins a look: reads states and counters, and copies stacks. True if there is anything to
    /// record, by [`Self::end_look`].
    pub fn begin_look(
        &mut self,
        process: &mut ObservedProcess,
        budget: &mut LookBudget,
        help: &mut dyn LookHelp,
    ) -> bool {
        let moment = self.pace.begin();
        self.taken = LookTaken::default();
        let Some(mut open) = self.process.open(&self.place) else {
            return false;
        };
        if self.has_other_program(&open) {
            self.leave(process);
            return false;
        }
        let other = &open.process;
        if moment >= self.next_count {
            self.next_count = moment + COUNTS;
            self.count(process, other);
        }
        if self.looks {
            self.update_threads(process, other);
            self.take_states(process, other, (budget, help));
        } else {
            self.needs_look = false;
        }
        if self.taken.is_empty() {
            self.pace.end();
        } else if open.read_again() && self.has_other_program(&open) {
            // The stacks that were copied may be those of another program.
            self.leave(process);
            return false;
        }
        let has_next = self.needs_look || self.needs_frequent_looks();
        self.process.keep(open, has_next);
        !self.taken.is_empty()
    }

    /// Whether the process executes another program than at the first look.
    fn has_other_program(&mut self, open: &OpenProcess) -> bool {
        let place = open.process.program();
        *self.program.get_or_insert(place) != place
    }

    /// Notes that the process has executed another program: nothing more is recorded.
    pub fn leave(&mut self, process: &mut ObservedProcess) {
        self.process.close();
        self.taken = LookTaken::default();
        if !std::mem::replace(&mut self.is_replaced, true) {
            self.suspend(process);
        }
    }

    /// The thread with this number in the PID namespace of the process. It is the main thread if
    /// the number is `pid`.
    #[must_use]
    pub fn thread_numbered(&self, number: i32, pid: u32) -> ThreadId {
        match number.unsigned_abs() {
            main if main == pid => self.threads.main(),
            other => ThreadId::new(u64::from(other)),
        }
    }

    /// Whether the process has been found to have executed another program.
    #[must_use]
    pub const fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    fn count(&mut self, process: &mut ObservedProcess, other: &OtherProcess) {
        let cpu_ns = self.clock.cpu_ns;
        let used = cpu_ns.map(|cpu_ns| cpu_ns.saturating_sub(self.place.base_ns));
        let resident = self
            .counters
            .wants_memory()
            .then(|| other.resident_bytes())
            .flatten();
        let at = (Timestamp::now(), self.clock.until);
        self.counters.record(process, at, used, resident);
    }

    /// Finds the threads that are new, and those that have ended.
    fn update_threads(&mut self, process: &mut ObservedProcess, other: &OtherProcess) {
        let begin = now();
        if begin < self.next_list || !self.threads.has_changed(other.threads()) {
            return;
        }
        let began_at = reader_time();
        let at = Timestamp::now();
        for (tid, mut ended) in self.threads.update(other).unwrap_or_default() {
            end_wait(process, (tid, &mut ended), self.times.tick, true);
            self.add_rest(process, (tid, &mut ended), at);
            self.gone.end(&ended, process, at);
        }
        let all = &self.threads.all;
        process.keep_only(|tid| all.contains_key(&tid));
        let cost = reader_time().saturating_sub(began_at);
        self.next_list = begin + listing_pause(cost, self.listing_cost);
        self.listing_cost = cost;
    }

    /// Looks at the threads that are due, from the one after the last.
    fn take_states(
        &mut self,
        process: &mut ObservedProcess,
        other: &OtherProcess,
        (budget, help): (&mut LookBudget, &mut dyn LookHelp),
    ) {
        let since = self.clock.since;
        let moment = self.pace.began();
        let is_quiet = self.clock.until.is_some();
        let (last, times) = (self.looked_last, self.times);
        let all = &mut self.threads.all;
        let later: Vec<ThreadId> = all
            .range((Excluded(last), Unbounded))
            .map(|(tid, _)| *tid)
            .collect();
        let earlier: Vec<ThreadId> = all.range(..=last).map(|(tid, _)| *tid).collect();
        for tid in later.into_iter().chain(earlier) {
            let Some(thread) = all.get_mut(&tid) else {
                continue;
            };
            let is_due = if is_quiet {
                !thread.waits.was_seen_since(since)
            } else {
                thread.waits.is_due(moment)
            };
            if !is_due || thread.is_missing {
                continue;
            }
            if budget.is_spent() {
                break;
            }
            self.taken
                .take((process, other), (tid, thread), times, (budget, help));
            self.looked_last = tid;
        }
        self.is_refused |= self.taken.is_refused;
        let (alternates, looking_up) = (self.taken.alternates, self.taken.looking_up);
        self.pace.note(budget.is_spent(), alternates, looking_up);
        self.skipped_ns = self.skipped_ns.saturating_add(self.taken.skipped_ns);
        self.needs_look = all
            .values()
            .any(|thread| !thread.waits.was_seen_since(since));
    }

    /// Ends a look: records what it has found, in as far as the threads have no later samples.
    pub fn end_look(
        &mut self,
        files: &mut ObservedFiles,
        process: &mut ObservedProcess,
        help: &mut dyn LookHelp,
    ) {
        let taken = std::mem::take(&mut self.taken);
        let recorded = taken.record((files, process), &mut self.threads, self.times, help);
        let since = self.clock.since;
        let mut all = self.threads.all.values();
        self.needs_look = all.any(|thread| !thread.waits.was_seen_since(since));
        if !self.needs_look && !self.needs_frequent_looks() {
            self.process.close();
        }
        self.stackless_ns = self.stackless_ns.saturating_add(recorded);
        self.pace.end();
    }

    /// Whether the system has refused to show where a thread waits, or its stack, since the last
    /// call.
    pub const fn take_refused(&mut self) -> bool {
        std::mem::replace(&mut self.is_refused, false)
    }

    /// Records the waits up to now for which an entry is due, or all waits if `is_asked`. Returns
    /// whether there were any.
    pub fn record_waits(&mut self, process: &mut ObservedProcess, is_asked: bool) -> bool {
        self.prolong();
        let moment = now();
        let mut has_recorded = false;
        for (tid, thread) in &mut self.threads.all {
            let unrecorded = thread
                .waits
                .take_unrecorded(is_asked, moment, self.times.tick);
            if let Some(unrecorded) = unrecorded {
                has_recorded |= process.repeat_wait(*tid, unrecorded, true);
            }
        }
        has_recorded
    }

    /// Ends all waits, because nothing is recorded for a while. The processor time up to the next
    /// look is not recorded.
    pub fn suspend(&mut self, process: &mut ObservedProcess) {
        self.prolong();
        for (tid, thread) in &mut self.threads.all {
            end_wait(process, (*tid, thread), self.times.tick, true);
            thread.is_after_pause = true;
        }
        self.threads.begin_after_pause();
        self.needs_look = true;
    }

    /// Ends the program, which ended at `at` with this processor time if that is known. With
    /// `discard`, nothing is recorded.
    pub fn end(
        &mut self,
        process: &mut ObservedProcess,
        (at, cpu_ns): (Timestamp, Option<u64>),
        discard: bool,
    ) {
        if !discard {
            self.wait_until_end(process, (at, cpu_ns));
            for (tid, mut thread) in std::mem::take(&mut self.threads.all) {
                end_wait(process, (tid, &mut thread), self.times.tick, false);
                self.add_rest(process, (tid, &mut thread), at);
                self.threads.all.insert(tid, thread);
            }
        }
        self.threads.end_rows(process, at);
    }

    /// Records the rest of the processor time of a thread that has no samples of its own.
    fn add_rest(
        &mut self,
        process: &mut ObservedProcess,
        (tid, thread): (ThreadId, &mut ObservedThread),
        at: Timestamp,
    ) {
        let is_little = thread.unrecorded_ns() < self.times.interval_ns / 2;
        if !thread.is_sampled && !is_little && !thread.is_after_pause {
            let used = add_time(process, (tid, thread), at, self.times);
            self.stackless_ns = self.stackless_ns.saturating_add(used);
        }
    }

    /// Prolongs the waits up to the end of the process, if it has used next to nothing since its
    /// clock was last read. Records the counters.
    fn wait_until_end(
        &mut self,
        process: &mut ObservedProcess,
        (at, cpu_ns): (Timestamp, Option<u64>),
    ) {
        self.prolong();
        let Some(cpu_ns) = cpu_ns.filter(|_| self.is_periodic) else {
            return;
        };
        let known = self.clock.cpu_ns.unwrap_or(0);
        let used = cpu_ns.saturating_sub(known);
        if used <= END_NS {
            let used = process.pool().ticks_in(used);
            let until = Timestamp::from_raw(at.raw().saturating_sub(used));
            self.clock.until = self
                .clock
                .until
                .map(|known| known.max(until))
                .or(Some(until));
            self.prolong();
        }
        let all = cpu_ns.saturating_sub(self.place.base_ns);
        self.counters
            .record(process, (at, self.clock.until), Some(all), None);
    }
}
