//! One look at the waiting threads of an observed process, in two steps.
//!
//! Used by `observed_waits`. [`LookTaken::take`] reads the states of threads and copies the stacks
//! of those that wait elsewhere than before. Then the samples that the process has taken are read
//! and recorded. [`LookTaken::record`] unwinds the copies and records them, except those of threads
//! that have a later sample. So the samples of a thread are in order of time: a thread that waits
//! has finished its samples before.
//!
//! Invariants: the process is not disturbed; a look reads a limited number of threads and copies a
//! limited number of stacks ([`LookBudget`]); a copied stack is recorded only if its thread has not
//! run while it was copied. Otherwise, the look records a stack that is known for this place
//! (`known_stacks`).

use std::ops::Range;
use std::time::Duration;

use super::callers::{self, Callers};
use super::covered_time::{CoveredTime, time_of_ns};
use super::looking::MAX_UNTAKEN;
use super::observed::{ObservedFiles, ObservedProcess};
use super::observed_threads::{ObservedThread, ThreadTable};
use super::schedule::now;
use super::stack_copy::STACK_BYTES;
use super::wait_period::{WaitContext, WaitPlace};
use super::writer::SampleSpan;
use crate::entry::stack::Frame;
use crate::ids::ThreadId;
use crate::sys::current_thread_id;
use crate::sys::native::other_process::{MemoryKind, OtherMemory, OtherProcess};
use crate::sys::native::tasks::{self, Doing, Wait};
use crate::time::Timestamp;
use profiler_unwind::CodeBytes;
use profiler_unwind::CopiedStack;

/// How much the looks of one pass may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookBudget {
    /// The threads whose states are read.
    pub threads: usize,
    /// The stacks that are copied and unwound.
    pub stacks: usize,
}

impl LookBudget {
    /// Whether nothing more can be looked at.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.threads == 0 || self.stacks == 0
    }
}

/// The times of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookTimes {
    /// The interval of the session in units of timestamps.
    pub(super) tick: u64,
    /// The interval in nanoseconds.
    pub(super) interval_ns: u64,
    /// The time between two samples of a thread that runs, in nanoseconds: at least the interval
    /// and the system's tick.
    pub(super) sampling_ns: u64,
}

impl LookTimes {
    /// A time in units of timestamps.
    pub(super) fn time_of(&self, ns: u64) -> u64 {
        time_of_ns(ns, self.tick, self.interval_ns)
    }
}

/// A wait that was found and is not recorded yet.
#[derive(Debug)]
struct FoundWait {
    tid: ThreadId,
    place: WaitPlace,
    at: Timestamp,
    /// The stack among the words of all stacks.
    words: Range<usize>,
    is_cut: bool,
    /// Whether its stack is one that is known (`known_stacks`).
    is_known: bool,
    awaited: AwaitedProcess,
}

/// The process that a thread waits for.
#[derive(Clone, Copy, Debug)]
struct AwaitedProcess {
    label: Option<Frame>,
    /// Whether this was looked up. Otherwise, the next look tries again.
    is_known: bool,
    /// Whether the recorded wait is this one, and has no label because it could not be looked up
    /// before: the new entry gets its time.
    replaces: bool,
}

impl AwaitedProcess {
    const NO_PROCESS: Self = Self {
        label: None,
        is_known: true,
        replaces: false,
    };
}

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct LookTaken {
    waits: Vec<FoundWait>,
    /// Threads with processor time that no sample has.
    times: Vec<(ThreadId, Timestamp)>,
    words: Vec<u64>,
    memory: Option<OtherMemory>,
    /// The processor of the looking thread, if it was read.
    processor: Option<Option<u32>>,
    /// Whether the system has refused to show where a thread waits, or its stack.
    pub(super) is_refused: bool,
    /// Whether a thread waits that has run since the last look.
    pub(super) alternates: bool,
    /// The processor time that is not to be recorded, in nanoseconds.
    pub(super) skipped_ns: u64,
    /// The reader's processor time for finding out for whom threads wait. The session limits it.
    pub(super) looking_up: Duration,
}

/// The code of a process.
struct OtherCode<'a>(&'a OtherMemory);

impl CodeBytes for OtherCode<'_> {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        self.0.read(address, room, MemoryKind::Any).bytes
    }

    fn is_complete(&self) -> bool {
        !self.0.is_closed()
    }
}

impl LookTaken {
    /// Whether there is nothing to record.
    pub(super) const fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.times.is_empty()
    }

    /// Looks at a thread.
    pub(super) fn take(
        &mut self,
        (process, other): (&mut ObservedProcess, &OtherProcess),
        (tid, thread): (ThreadId, &mut ObservedThread),
        times: LookTimes,
        (budget, help): (&mut LookBudget, &mut dyn LookHelp),
    ) {
        let Some(listed) = thread.listed else { return };
        budget.threads = budget.threads.saturating_sub(1);
        let activity = other.activity(listed);
        let activity = activity.filter(|found| found.cpu_ns >= thread.activity.cpu_ns);
        let Some(activity) = activity else {
            thread.is_missing = true; // or another thread has its number
            return;
        };
        let before = std::mem::replace(&mut thread.activity, activity);
        thread.near.note_runs(activity.runs);
        let was_ignored = thread.near.take_run();
        let has_run = before != activity || was_ignored;
        let delayed = thread
            .delay
            .of_running(activity.delay_ns, || other.switches(listed));
        thread.waits.time.delay(times.time_of(delayed));
        if std::mem::take(&mut thread.is_after_pause) {
            thread.waits.time = CoveredTime::since(Timestamp::now());
            self.skipped_ns = self.skipped_ns.saturating_add(thread.unrecorded_ns());
            thread.recorded_ns = thread.recorded_ns.max(activity.cpu_ns);
        }
        if !has_run && thread.waits.is_settled() {
            thread.waits.goes_on(Timestamp::now(), now());
            return;
        }
        thread.name_again(process, other);
        if thread.unrecorded_ns() >= times.sampling_ns.saturating_mul(MAX_UNTAKEN) {
            self.times.push((tid, Timestamp::now()));
        }
        self.examine(
            (process, other),
            (tid, listed),
            (thread, has_run),
            (budget, help),
        );
    }

    fn examine(
        &mut self,
        (process, other): (&mut ObservedProcess, &OtherProcess),
        (tid, listed): (ThreadId, ThreadId),
        (thread, has_run): (&mut ObservedThread, bool),
        (budget, help): (&mut LookBudget, &mut dyn LookHelp),
    ) {
        let place = match other.doing(listed) {
            Doing::Running => return thread.waits.has_run(false),
            Doing::Waiting(wait) if wait.sp != 0 => WaitPlace::Known(wait),
            // The first thread stays listed after its end.
            _ if other.has_ended(listed) => return thread.waits.has_run(true),
            _ => WaitPlace::Unknown,
        };
        self.alternates |= has_run;
        let own = || *self.processor.get_or_insert_with(own_processor);
        if has_run && thread.near.ignores(own, || other.last_processor(listed)) {
            return thread.waits.has_run(false);
        }
        let known = thread.waits.context_at(place);
        let mut awaited = self.awaited_process((process, other), (listed, place), known, help);
        let is_unnamed = known.is_some_and(|known| known.label.is_none());
        awaited.replaces = is_unnamed && !has_run && awaited.label.is_some();
        let is_same = known.is_some_and(|known| {
            known.label == awaited.label
                && self
                    .has_callers(other, place, known.callers)
                    .unwrap_or(true)
        });
        if is_same {
            thread.waits.waits_again(Timestamp::now(), now());
            if !awaited.is_known {
                thread.waits.look_again();
            }
            return;
        }
        thread.waits.has_run(false);
        if budget.stacks == 0 {
            return; // at the next look
        }
        budget.stacks -= 1;
        match place {
            WaitPlace::Known(wait) => {
                let kept = thread.stacks.reuse(place);
                let callers = kept.and_then(|kept| self.has_callers(other, place, kept));
                if callers == Some(true) {
                    return self.found_known((tid, place), Timestamp::now(), awaited);
                }
                self.copy(other, (tid, listed), thread, (wait, awaited));
            }
            WaitPlace::Unknown => {
                self.is_refused = true;
                self.found((tid, place), Timestamp::now(), (0..0, false), awaited);
            }
        }
    }

    /// The process that a thread waits for. If it cannot be looked up now, it is the same as in the
    /// recorded wait at this place.
    fn awaited_process(
        &mut self,
        (process, other): (&mut ObservedProcess, &OtherProcess),
        (listed, place): (ThreadId, WaitPlace),
        known: Option<WaitContext>,
        help: &mut dyn LookHelp,
    ) -> AwaitedProcess {
        let WaitPlace::Known(wait) = place else {
            return AwaitedProcess::NO_PROCESS;
        };
        let memory = self.memory.get_or_insert_with(|| OtherMemory::of(other));
        let waiting = WaitingThread {
            thread: listed,
            call: wait.call,
            arguments: wait.arguments,
            memory,
        };
        let began = reader_time();
        let found = help.for_whom(&waiting);
        self.looking_up += reader_time().saturating_sub(began);
        match found {
            AwaitedName::Known(name) => AwaitedProcess {
                label: process.wait_label(&name),
                ..AwaitedProcess::NO_PROCESS
            },
            AwaitedName::None => AwaitedProcess::NO_PROCESS,
            AwaitedName::NotLookedUp => AwaitedProcess {
                label: known.and_then(|known| known.label),
                is_known: false,
                replaces: false,
            },
        }
    }

    /// Whether the stack of a thread that waits at this place has these callers. `None` if they
    /// cannot be compared.
    fn has_callers(
        &mut self,
        other: &OtherProcess,
        place: WaitPlace,
        callers: Callers,
    ) -> Option<bool> {
        let WaitPlace::Known(wait) = place else {
            return None;
        };
        let mut room = [0; callers::MAX_WORDS];
        let needed = callers.needed();
        let room = room.get_mut(..needed).filter(|room| !room.is_empty())?;
        let memory = self.memory.get_or_insert_with(|| OtherMemory::of(other));
        let read = memory.read_words(wait.sp & !7, room, MemoryKind::Private);
        (read.bytes >= needed * size_of::<u64>()).then(|| callers.are_in(room))
    }

    /// Copies the stack of a waiting thread. If it no longer waits there, and no stack of this
    /// place is known, nothing is found.
    fn copy(
        &mut self,
        other: &OtherProcess,
        (tid, listed): (ThreadId, ThreadId),
        thread: &ObservedThread,
        (wait, awaited): (Wait, AwaitedProcess),
    ) {
        let at = Timestamp::now();
        let memory = self.memory.get_or_insert_with(|| OtherMemory::of(other));
        let start = self.words.len();
        self.words.resize(start + STACK_BYTES / 8, 0);
        let room = self.words.get_mut(start..).unwrap_or_default();
        let read = memory.read_words(wait.sp & !7, room, MemoryKind::Private);
        let is_whole = other.doing(listed) == Doing::Waiting(wait)
            && other.activity(listed) == Some(thread.activity);
        let end = start + if is_whole { read.bytes / 8 } else { 0 };
        self.words.truncate(end);
        self.is_refused |= read.is_forbidden;
        if is_whole {
            let is_cut = read.is_cut || read.bytes >= STACK_BYTES;
            self.found(
                (tid, WaitPlace::Known(wait)),
                at,
                (start..end, is_cut),
                awaited,
            );
        } else if thread.stacks.find(WaitPlace::Known(wait)).is_some() {
            self.found_known((tid, WaitPlace::Known(wait)), at, awaited);
        }
    }

    fn found_known(
        &mut self,
        (tid, place): (ThreadId, WaitPlace),
        at: Timestamp,
        awaited: AwaitedProcess,
    ) {
        self.waits.push(FoundWait {
            tid,
            place,
            at,
            words: 0..0,
            is_cut: false,
            is_known: true,
            awaited,
        });
    }

    fn found(
        &mut self,
        (tid, place): (ThreadId, WaitPlace),
        at: Timestamp,
        (words, is_cut): (Range<usize>, bool),
        awaited: AwaitedProcess,
    ) {
        self.waits.push(FoundWait {
            tid,
            place,
            at,
            words,
            is_cut,
            is_known: false,
            awaited,
        });
    }

    /// Records what was found. Returns the processor time that was recorded without a stack, in
    /// nanoseconds.
    pub(super) fn record(
        self,
        (files, process): (&mut ObservedFiles, &mut ObservedProcess),
        threads: &mut ThreadTable,
        times: LookTimes,
        help: &mut dyn LookHelp,
    ) -> u64 {
        let mut recorded = 0_u64;
        for (tid, at) in &self.times {
            if let Some(thread) = threads.all.get_mut(tid) {
                let used = record_time(process, (*tid, thread), *at, times);
                recorded = recorded.saturating_add(used);
            }
        }
        for found in &self.waits {
            let thread = threads.all.get_mut(&found.tid);
            let Some(thread) = thread.filter(|thread| thread.sampled_at < found.at) else {
                continue; // it has run again
            };
            let unsampled = times.time_of(thread.unrecorded_ns());
            if found.awaited.replaces {
                thread.waits.replace();
            } else {
                thread.waits.ends_halfway_to(found.at, unsampled);
            }
            end_wait(process, (found.tid, thread), times.tick, false);
            let mut time = thread.waits.time;
            if time.is_complete(found.at, times.tick) {
                continue;
            }
            let at = time.begin_of_wait(found.at, unsampled);
            thread.begin_row(process, found.tid, at);
            let span = SampleSpan::wait(time.begin_wait(at, unsampled, times.tick));
            let sample = (at, 0, span);
            let callers = self.record_wait((files, process), (found, thread), sample, help);
            if let Some(callers) = callers {
                thread.waits.begin(found.place, found.at, now(), time);
                let label = found.awaited.label;
                thread.waits.set_context(WaitContext {
                    callers,
                    label,
                    ..WaitContext::default()
                });
                if !found.awaited.is_known {
                    thread.waits.look_again();
                }
            }
        }
        recorded
    }

    /// Records a wait. Returns its callers; `None` if it was dropped.
    fn record_wait(
        &self,
        (files, process): (&mut ObservedFiles, &mut ObservedProcess),
        (found, thread): (&FoundWait, &mut ObservedThread),
        sample: (Timestamp, u64, SampleSpan),
        help: &mut dyn LookHelp,
    ) -> Option<Callers> {
        let label = found.awaited.label;
        if found.is_known {
            let known = thread.stacks.find(found.place)?;
            let ends = (known.is_cut, known.has_failed);
            files.plain.clear();
            files
                .plain
                .extend(known.frames.iter().copied().chain(label));
            let is_recorded = process.add_frames(found.tid, sample, &files.plain, ends);
            return is_recorded.then_some(known.callers);
        }
        let (WaitPlace::Known(wait), Some(memory)) = (found.place, &self.memory) else {
            let is_recorded = process.add_bare(found.tid, sample);
            return is_recorded.then(Callers::default);
        };
        let stack = CopiedStack {
            start: wait.sp & !7,
            words: self.words.get(found.words.clone()).unwrap_or_default(),
            is_cut: found.is_cut,
        };
        let code = OtherCode(memory);
        let mut walked = process.walk_waiting(files, wait, &stack, &code);
        if walked.unknown.is_some() && help.find_files(files, process) {
            walked = process.walk_waiting(files, wait, &stack, &code);
        }
        let ends = (walked.cut, walked.failed);
        let callers = Callers::of((stack.start, stack.words), files.walked(walked.len));
        let is_recorded = process.add_walked(files, found.tid, sample, walked, label);
        let kept = match files.plain.as_slice() {
            // Without the label, which the next wait at this place may not have.
            [frames @ .., _] if label.is_some() => frames,
            frames => frames,
        };
        thread.stacks.note((found.place, callers), kept, ends);
        is_recorded.then_some(callers)
    }
}

/// A thread that waits in a system call.
#[derive(Clone, Copy, Debug)]
pub struct WaitingThread<'a> {
    /// Its number in the system.
    pub thread: ThreadId,
    /// The number of the call; negative for a page fault.
    pub call: i64,
    /// The first three arguments of the call.
    pub arguments: [u64; 3],
    memory: &'a OtherMemory,
}

impl WaitingThread<'_> {
    /// Reads memory of its process into `room`. False if it cannot fill all of `room`.
    pub fn read(&self, address: u64, room: &mut [u8]) -> bool {
        let wanted = room.len();
        self.memory.read(address, room, MemoryKind::Any).bytes >= wanted
    }
}

/// For whom a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AwaitedName {
    /// The name of the label that shows this.
    Known(String),
    /// The thread waits for no process, or for an unknown one.
    None,
    /// This could not be looked up now.
    NotLookedUp,
}

/// What a look needs from the session.
pub trait LookHelp {
    /// Looks for files that a process has loaded, and returns whether there are new ones.
    fn find_files(&mut self, files: &mut ObservedFiles, process: &mut ObservedProcess) -> bool;

    /// For whom a thread waits.
    fn for_whom(&mut self, thread: &WaitingThread<'_>) -> AwaitedName;
}

/// Records the processor time of a thread that no sample has, unless samples have had it since.
/// Returns it.
fn record_time(
    process: &mut ObservedProcess,
    (tid, thread): (ThreadId, &mut ObservedThread),
    at: Timestamp,
    times: LookTimes,
) -> u64 {
    let used = thread.unrecorded_ns();
    if used < times.sampling_ns.saturating_mul(MAX_UNTAKEN) || thread.sampled_at >= at {
        return 0;
    }
    end_wait(process, (tid, thread), times.tick, false);
    add_time(process, (tid, thread), at, times)
}

/// Records all processor time that the last look at a thread has found. Returns it.
pub(super) fn add_time(
    process: &mut ObservedProcess,
    (tid, thread): (ThreadId, &mut ObservedThread),
    at: Timestamp,
    times: LookTimes,
) -> u64 {
    let used = thread.unrecorded_ns();
    thread.recorded_ns = thread.activity.cpu_ns;
    thread.begin_row(process, tid, at);
    let ticks = thread.waits.time.run(at, times.time_of(used), times.tick);
    process.add_time(tid, at, used, ticks);
    used
}

/// Ends the wait that the last entry of a thread shows. With `always`, there is an entry also if no
/// tick of it is left: otherwise the last one would say that the thread goes on to wait.
pub(super) fn end_wait(
    process: &mut ObservedProcess,
    (tid, thread): (ThreadId, &mut ObservedThread),
    tick: u64,
    always: bool,
) {
    let Some(last) = thread.waits.last_seen() else {
        return;
    };
    let unrecorded = thread.waits.end(None, tick);
    if let Some(unrecorded) = unrecorded.or(always.then_some((1, last))) {
        process.repeat_wait(tid, unrecorded, false);
    }
}

/// The processor of the calling thread.
fn own_processor() -> Option<u32> {
    tasks::last_processor(current_thread_id())
}

/// The processor time of the calling thread, which looks at other threads. On a busy machine, the
/// wall time of a look is longer than its processor time.
pub(super) fn reader_time() -> Duration {
    Duration::from_nanos(tasks::own_cpu_ns())
}
