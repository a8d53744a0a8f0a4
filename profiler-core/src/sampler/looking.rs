//! Looks at threads: finds which threads have run and where the others wait, and records both.
//!
//! Called by `thread` at each pass. A look reads the thread's clock. If the thread has run since
//! the previous look, the look also reads its state. If the thread waits, the look records where it
//! waits, in a sample without processor time. The processor time is in the next sample that is
//! taken while the thread runs, so a profile shows this time in the code that ran. A look records
//! no wait of a thread whose handler has begun a sample until that sample is read. Therefore the
//! samples of a thread are in order of time.
//!
//! While the process's clock shows that no thread runs, a thread that was seen to wait needs no
//! look. If all threads were seen to wait, the pass looks at no thread ([`QuietPeriod`]).
//!
//! A thread without a trigger has samples without stacks while it runs. So does a thread whose
//! trigger takes no samples: see [`MAX_UNTAKEN`].

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::alternation::Alternation;
use super::arming::{Arming, leave_alone};
use super::asking;
use super::control::count;
use super::covered_time::time_of_ns;
use super::quiet_period::QuietPeriod;
use super::sample_recorder::SampleRecorder;
use super::schedule::now;
use super::targets::{Target, Targets};
use super::wait_period::{WaitContext, WaitPeriod, WaitPlace};
use crate::ids::ThreadId;
use crate::params::SampleSource;
use crate::sys::current_thread_id;
use crate::sys::native::tasks::{self, Doing};
use crate::time::Timestamp;

/// If a thread uses this number of intervals of processor time and its trigger takes no sample, the
/// thread gets a sample without a stack, and its signal mask is checked.
pub(super) const MAX_UNTAKEN: u64 = 10;
/// The same for perf events, which take no sample while the system works for the thread.
const MAX_UNTAKEN_BY_EVENTS: u64 = 100;
/// The maximum number of idle threads that a pass looks at, see [`Looking::in_turn`].
const IDLE_PER_PASS: usize = 32;
/// The number of passes in a row that look at a thread whose wait the session has not named. Later
/// looks are as rare as at other waiting threads.
const MAX_UNKNOWN_LOOKS: u8 = 8;
/// The session is asked again about a wait that lasts longer than this.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// The time between two checks whether entries of waits are due.
const RECORDS: Duration = Duration::from_secs(1);

/// Which threads are looked at, and how.
#[derive(Debug)]
pub(super) struct Looking {
    pub(super) interval: Duration,
    /// The session's interval in units of timestamps, and in nanoseconds.
    pub(super) tick: u64,
    tick_ns: u64,
    /// [`MAX_UNTAKEN`] or [`MAX_UNTAKEN_BY_EVENTS`], by the source.
    most_untaken: u64,
    /// Whether threads that run are asked for samples.
    asks: bool,
    /// Whether each pass looks at all threads that are not idle, and at some of the idle threads in
    /// turn. Otherwise, the time between two looks at an idle thread grows.
    in_turn: bool,
    next_in_turn: usize,
    /// The processor of the sampler's thread in this pass, if it was read.
    processor: Cell<Option<u32>>,
    /// Whether a thread waits for this pass.
    is_asked: bool,
    pub(super) quiet: QuietPeriod,
    pub(super) alternation: Alternation,
    /// The time of the next check whether entries of waits are due.
    next_records: Instant,
}

impl Looking {
    /// For a source of samples. `walks` is true if the session has stacks.
    pub(super) fn new(source: SampleSource, interval: Duration, tick: u64, walks: bool) -> Self {
        let (asks, in_turn) = match source {
            SampleSource::Signal => (walks, true),
            _ => (false, !walks),
        };
        let most_untaken = match source {
            SampleSource::Sigtrap => MAX_UNTAKEN_BY_EVENTS,
            _ => MAX_UNTAKEN,
        };
        Self {
            interval,
            tick,
            tick_ns: u64::try_from(interval.as_nanos())
                .unwrap_or(u64::MAX)
                .max(1),
            most_untaken,
            asks,
            in_turn,
            next_in_turn: 0,
            processor: Cell::new(None),
            is_asked: false,
            quiet: QuietPeriod::new(now()),
            alternation: Alternation::default(),
            next_records: now(),
        }
    }

    /// Looks at all threads that are due, or at all threads if `is_asked`. Returns how many of them
    /// have run.
    pub(super) fn look_at_all(
        &mut self,
        recorder: &mut SampleRecorder,
        targets: &mut Targets,
        arming: &mut Arming,
        is_asked: bool,
    ) -> usize {
        let moment = now();
        self.processor.set(None);
        self.is_asked = is_asked;
        let all = targets.len();
        if !is_asked && self.quiet.spares_all(all, moment) {
            return 0;
        }
        let (mut woken, mut settled, mut alternates) = (0, 0, false);
        let mut idle = IDLE_PER_PASS;
        let first = self.next_in_turn;
        for index in (0..all).map(|turn| (first + turn) % all) {
            let Some(target) = targets.get_mut(index) else {
                continue;
            };
            if target.is_gone || !is_asked && !self.is_due(target, moment, &mut idle) {
                self.quiet.prolong(&mut target.waits);
                settled += usize::from(self.quiet.spares(&target.waits, moment));
                continue;
            }
            if self.in_turn && target.waits.is_idle() {
                self.next_in_turn = index + 1;
            }
            let has_run = self.look_at(recorder, target, arming, moment);
            woken += usize::from(has_run);
            alternates |= has_run && (target.waits.is_open() || target.near.is_ignored());
            settled += usize::from(self.quiet.covers(&target.waits));
        }
        if alternates {
            self.alternation.note(moment);
        } else if woken > 0 {
            self.alternation.note_running(moment);
        }
        self.quiet.note_settled(settled, all, moment);
        woken
    }

    fn is_due(&self, target: &Target, moment: Instant, idle: &mut usize) -> bool {
        if self.quiet.spares(&target.waits, moment) {
            return false;
        }
        if !self.in_turn {
            return target.waits.is_due(moment);
        }
        if !target.waits.is_idle() {
            return true;
        }
        let is_next = *idle > 0;
        *idle = idle.saturating_sub(1);
        is_next
    }

    /// Looks at a thread; returns whether it has run.
    fn look_at(
        &self,
        recorder: &mut SampleRecorder,
        target: &mut Target,
        arming: &mut Arming,
        moment: Instant,
    ) -> bool {
        let cpu = tasks::cpu_ns(target.tid).filter(|cpu| *cpu >= target.cpu);
        let Some(cpu) = cpu else {
            target.is_gone = true; // or another thread has its number
            return false;
        };
        let was_ignored = target.near.take_run();
        let has_run = std::mem::replace(&mut target.cpu, cpu) != cpu || was_ignored;
        target.waits.time.begin(Timestamp::now());
        self.quiet.prolong(&mut target.waits);
        if !has_run && target.waits.is_settled() {
            target.waits.goes_on(Timestamp::now(), moment);
            let long = target.waits.long_place(LONG_WAIT, moment);
            if long.is_some_and(|place| recorder.ask_anew(target.tid, place)) {
                target.waits.set_asked_anew();
                target.waits.unsettle();
            }
        } else if target.walk {
            self.examine(recorder, target, arming, has_run);
        } else {
            let used = target.cpu.saturating_sub(target.recorded_cpu);
            target.recorded_cpu = target.cpu;
            if has_run || !target.has_sample {
                self.record_cpu(recorder, target, used);
            }
            target.waits.has_run(true);
        }
        has_run
    }

    /// Records the state of a thread that has run since its last look, or whose state is not
    /// recorded yet.
    fn examine(
        &self,
        recorder: &mut SampleRecorder,
        target: &mut Target,
        arming: &mut Arming,
        has_run: bool,
    ) {
        self.record_untaken(recorder, target, arming);
        let may_have_only_run = !self.asks && target.armed.is_some() && !target.waits.is_open();
        if may_have_only_run && target.delay.has_begun() && self.has_only_run(target) {
            return target.waits.has_run(false);
        }
        let estimated_ns = self.note_activity(target);
        if may_have_only_run && self.has_only_run(target) {
            return target.waits.has_run(false);
        }
        let place = match tasks::doing(target.tid) {
            Doing::Running => {
                if self.asks {
                    asking::ask_if_due(target, self.interval);
                }
                return target.waits.has_run(false);
            }
            Doing::Waiting(wait) => WaitPlace::Known(wait),
            Doing::WaitingSomewhere | Doing::Unknown => WaitPlace::Unknown,
        };
        if let Some(delay_ns) = estimated_ns {
            self.divide_delay(target, delay_ns);
        }
        if has_run && !self.is_asked && self.is_near(target) {
            return target.waits.has_run(false);
        }
        if self.asks {
            let wait = match place {
                WaitPlace::Known(wait) => Some(wait),
                WaitPlace::Unknown => None,
            };
            target.habit.note(wait, has_run);
        }
        if target
            .armed
            .is_some_and(|armed| armed.thread.has_unread_samples())
        {
            return target.waits.has_run(false);
        }
        self.note_wait(recorder, target, place, has_run);
    }

    /// Records where a thread waits and for whom, unless the last entry shows the same.
    fn note_wait(
        &self,
        recorder: &mut SampleRecorder,
        target: &mut Target,
        place: WaitPlace,
        has_run: bool,
    ) {
        let since = target.waits.begun().filter(|_| !has_run);
        let whom = recorder.for_whom(target.tid, place, since);
        let present = WaitContext {
            label: whom.label,
            carried: recorder.context_of(target.tid),
            ..WaitContext::default()
        };
        let recorded = target.waits.context_at(place);
        // Later ticks of a recorded wait get the context of its entry.
        let is_context_new =
            has_run && recorded.is_some_and(|recorded| recorded.carried != present.carried);
        if has_run || recorded.is_none() {
            target.unknown_looks = 0;
        }
        match recorded {
            Some(recorded) if recorded.label == whom.label && !is_context_new => {
                let waits = &mut target.waits;
                if has_run {
                    waits.waits_again(Timestamp::now(), now());
                } else {
                    waits.has_run(true);
                    waits.goes_on(Timestamp::now(), now());
                }
            }
            Some(recorded) if recorded.label.is_none() && !has_run => {
                target.waits.replace();
                self.record_new_wait(recorder, target, place, (present, true));
            }
            _ => self.record_new_wait(recorder, target, place, (present, false)),
        }
        if !whom.is_known {
            target.waits.unsettle();
            target.unknown_looks = target.unknown_looks.saturating_add(1);
            if target.unknown_looks <= MAX_UNKNOWN_LOOKS {
                target.waits.look_again();
            }
        }
    }

    /// Ends the recorded wait of a thread, and records the place where it waits now. `context`
    /// shows for whom it waits; `is_same` is true if the thread has not run since the recorded
    /// wait.
    fn record_new_wait(
        &self,
        recorder: &mut SampleRecorder,
        target: &mut Target,
        place: WaitPlace,
        (context, is_same): (WaitContext, bool),
    ) {
        let found = Timestamp::now();
        let unsampled = self.time_of(unsampled_ns(target));
        if !is_same {
            target.waits.ends_halfway_to(found, unsampled);
        }
        if let Some(unrecorded) = target.waits.end(None, self.tick) {
            recorder.record_wait(target.tid, unrecorded, false);
        }
        let mut time = target.waits.time;
        if time.is_complete(found, self.tick) {
            return target.waits.has_run(false);
        }
        let at = time.begin_of_wait(found, unsampled);
        let ticks = time.begin_wait(at, unsampled, self.tick);
        let is_recorded = match place {
            WaitPlace::Known(wait) => recorder.peek(target, wait, (at, ticks), context.label),
            WaitPlace::Unknown => {
                recorder.record_hidden(target, (at, ticks));
                true
            }
        };
        if is_recorded {
            target.waits.begin(place, found, now(), time);
            target.waits.set_context(context);
        } else {
            target.waits.has_run(false);
        }
    }

    /// Records the processor time of a thread in a sample without a stack, if the thread has no
    /// trigger or its trigger takes no samples ([`MAX_UNTAKEN`]). If the thread blocks the signal,
    /// takes the trigger from it.
    fn record_untaken(
        &self,
        recorder: &mut SampleRecorder,
        target: &mut Target,
        arming: &mut Arming,
    ) {
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        let Some(armed) = target.armed else {
            let used = target.cpu.saturating_sub(target.recorded_cpu);
            if used >= interval {
                target.recorded_cpu = target.cpu;
                self.record_cpu(recorder, target, used);
            }
            return;
        };
        let since_found = target.cpu.saturating_sub(target.recorded_cpu);
        let untaken = armed.thread.untaken_cpu(target.cpu, since_found);
        let most = interval.saturating_mul(self.most_untaken);
        if untaken < most || armed.thread.has_unread_samples() {
            return;
        }
        let used = armed.thread.take_cpu(target.cpu, since_found);
        self.record_cpu(recorder, target, used);
        target.asked = None; // the signal may have been lost
        if armed.has_lost_trigger() {
            return arming.take_from(target);
        }
        // If the system does not report the mask, the thread keeps its trigger: the signal may just
        // be late.
        if arming.is_deaf(target.tid) == Some(true) {
            count(&recorder.shared.counts.deaf, 1);
            leave_alone(target);
            arming.take_from(target);
        }
    }

    /// Records processor time of a thread without a stack.
    fn record_cpu(&self, recorder: &mut SampleRecorder, target: &mut Target, cpu_ns: u64) {
        let at = Timestamp::now();
        let ticks = target.waits.time.run(at, self.time_of(cpu_ns), self.tick);
        recorder.record_cpu(target, cpu_ns, (at, ticks));
    }

    /// Whether a thread has only run since its last sample. Its files are then not read: reading
    /// them is most of the cost of a look.
    fn has_only_run(&self, target: &Target) -> bool {
        let unsampled = self.time_of(unsampled_ns(target));
        let time = &target.waits.time;
        time.has_only_run(Timestamp::now(), unsampled, self.tick)
    }

    /// Adds the run delay of the running code since the last look: an estimate if possible,
    /// otherwise from the numbers of switches. Returns the thread's run delay if it was estimated.
    fn note_activity(&self, target: &mut Target) -> Option<u64> {
        let activity = tasks::activity(target.tid)?;
        target.near.note_runs(activity.runs);
        let Some(delayed) = target.delay.estimate(activity.delay_ns) else {
            self.divide_delay(target, activity.delay_ns);
            return None;
        };
        target.waits.time.delay(self.time_of(delayed));
        Some(activity.delay_ns)
    }

    /// Whether this look at a thread that has run and waits now is ignored, see `near_looks`.
    fn is_near(&self, target: &mut Target) -> bool {
        let processor = &self.processor;
        let own = || {
            let known = processor
                .get()
                .or_else(|| tasks::last_processor(current_thread_id()));
            processor.set(known);
            known
        };
        let tid = target.tid;
        target.near.ignores(own, || tasks::last_processor(tid))
    }

    /// Notes the run delay of the running code since the last division.
    fn divide_delay(&self, target: &mut Target, delay_ns: u64) {
        let switches = || tasks::switches(target.tid);
        let delayed = target.delay.of_running(delay_ns, switches);
        target.waits.time.delay(self.time_of(delayed));
    }

    /// A time in units of timestamps.
    fn time_of(&self, ns: u64) -> u64 {
        time_of_ns(ns, self.tick, self.tick_ns)
    }

    /// Records the waits up to now for which an entry is due, or all waits if `is_asked`.
    pub(super) fn record_waits(
        &mut self,
        recorder: &mut SampleRecorder,
        targets: &mut Targets,
        is_asked: bool,
    ) {
        let moment = now();
        if !is_asked && moment < self.next_records {
            return;
        }
        self.next_records = moment + RECORDS;
        for target in targets.iter_mut() {
            self.quiet.prolong(&mut target.waits);
            let unrecorded = target.waits.take_unrecorded(is_asked, moment, self.tick);
            if let Some(unrecorded) = unrecorded {
                recorder.record_wait(target.tid, unrecorded, true);
            }
        }
    }

    /// Records that a thread is no longer known to wait, if its last entry shows a wait.
    pub(super) fn end_wait(
        &self,
        recorder: &mut SampleRecorder,
        tid: ThreadId,
        waits: &mut WaitPeriod,
    ) {
        if waits.is_open() {
            self.quiet.prolong(waits);
            let last = waits.last_seen().unwrap_or(Timestamp::ZERO);
            let unrecorded = waits.end(None, self.tick).unwrap_or((1, last));
            recorder.record_wait(tid, unrecorded, false);
        }
    }
}

/// The processor time of a thread that no sample has.
fn unsampled_ns(target: &Target) -> u64 {
    let since_found = target.cpu.saturating_sub(target.recorded_cpu);
    target.armed.map_or(since_found, |armed| {
        armed.thread.untaken_cpu(target.cpu, since_found)
    })
}
