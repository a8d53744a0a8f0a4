//! The sampler's thread, which runs the ticks.
//!
//! A tick finds new threads, reads counters, and records one sample of every thread that used
//! processor time since its last one. `step` chooses the method that disturbs the thread least.
//!
//! Up to [`SLOTS`] threads are asked at once, so the waits for threads without a processor overlap.
//! A thread that does not answer within [`ANSWER`] is counted as missed and skipped for some ticks.
//! That limit covers all threads of a tick together: threads that were not reached come first in
//! the next tick.
//!
//! A thread that blocks the signal is not asked, so no signal stays pending in it. This is checked
//! before its first signal and after every idle period. The processor time of a thread without a
//! sample is recorded with its next one.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::capture::{Captures, SLOTS, Ticket};
use super::control::{SamplerConfig, SamplerShared, count, is_periodic};
use super::counters::CounterSampler;
use super::idle_period::{CHECKS_PER_TICK, most_unrecorded};
use super::notices::Notice;
use super::sample_recorder::SampleRecorder;
use super::schedule::{Schedule, now};
use super::step::{Step, may_be_signalled, step, unless_unseen_for_long};
use super::targets::{Target, Targets};
use crate::entry::periodic::OverheadEntry;
use crate::params::Features;
use crate::record::{local, session_state};
use crate::sys;
use crate::sys::native::{alternate_stack, signal, tasks};
use crate::time::Timestamp;

/// How long a tick waits for answers. A thread that gets no processor for longer counts as missed.
const ANSWER: Duration = Duration::from_millis(100);
/// The maximum number of ticks for which a thread that does not answer is skipped.
const LONGEST_REST: u32 = 512;
/// Time between refreshes of the modules without periodic samples, for the stacks of markers.
const IDLE: Duration = Duration::from_millis(250);

/// Starts the thread. `None` if the system cannot create one.
pub(super) fn run(shared: Arc<SamplerShared>, config: SamplerConfig) -> Option<JoinHandle<()>> {
    let body = move || {
        let _last = Ending(Arc::clone(&shared));
        let interval = config.interval;
        let mut ticker = Ticker::new(shared, config);
        ticker.run(interval);
    };
    sys::spawn_quiet("profiler-stacks", body).ok()
}

/// Reports the end of the sampler, also by a panic, so no thread keeps waiting for it.
struct Ending(Arc<SamplerShared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.has_ended();
    }
}

/// A thread that was asked for its stack.
#[derive(Clone, Copy, Debug)]
struct Asked {
    target: usize,
    ticket: Ticket,
    cpu_ns: u64,
    /// Processor time at its last sample.
    cpu_before: u64,
}

/// The result of asking a thread.
#[derive(Clone, Copy, Debug)]
enum Asking {
    Sent(Ticket),
    /// All slots have pending tickets or are unusable: a thread may have lost the processor in its
    /// handler.
    NoSlot,
    /// The time limit of this tick has passed.
    Late,
    /// It has ended or blocks the signal, or no thread may be asked any more.
    No,
    /// The signal could not be sent.
    Failed,
}

#[derive(Debug)]
struct Ticker {
    shared: Arc<SamplerShared>,
    recorder: SampleRecorder,
    targets: Targets,
    captures: Option<Captures>,
    asked: Vec<Asked>,
    /// The time limit of this tick's waits.
    until: Instant,
    /// The first thread that this tick did not reach.
    left_over: Option<usize>,
    features: Features,
    counters: CounterSampler,
    /// The start time of this tick.
    at: Timestamp,
    /// The start time of the previous tick.
    previous_at: Timestamp,
    /// The number of this tick.
    number: u64,
    /// The position at which the checks of idle threads continue.
    next_at_rest: usize,
    /// The number of idle ticks after which an entry is due.
    most_unrecorded: u64,
    /// Whether all idle periods are recorded.
    is_all_told: bool,
}

/// Stops captures with this ticker's modules, also after a panic.
impl Drop for Ticker {
    fn drop(&mut self) {
        self.recorder.close();
    }
}

impl Ticker {
    fn new(shared: Arc<SamplerShared>, config: SamplerConfig) -> Self {
        let SamplerConfig {
            manager,
            features,
            interval,
            filter,
            flush_counters,
        } = config;
        local::select_always();
        let measures_cpu =
            features.contains(Features::CPU) || features.contains(Features::CPU_ALL_THREADS);
        let counters = CounterSampler::new(Arc::clone(&manager), features, flush_counters);
        let mut recorder = SampleRecorder::new(manager, Arc::clone(&shared), measures_cpu);
        if features.contains(Features::STACK_WALK) {
            recorder.refresh();
        }
        let asks = features.contains(Features::STACK_WALK) && is_periodic(features);
        let captures = if asks { Captures::new() } else { None };
        shared.is_ready();
        let asked = Vec::with_capacity(SLOTS);
        let targets = Targets::new(filter, features);
        let until = now();
        let left_over = None;
        Self {
            shared,
            recorder,
            targets,
            captures,
            asked,
            until,
            left_over,
            features,
            counters,
            at: Timestamp::ZERO,
            previous_at: Timestamp::ZERO,
            number: 0,
            next_at_rest: 0,
            most_unrecorded: most_unrecorded(interval),
            is_all_told: true,
        }
    }

    fn run(&mut self, interval: Duration) {
        let is_periodic = is_periodic(self.features);
        let mut schedule = Schedule::new(if is_periodic { interval } else { IDLE }, now());
        while let Some(is_running) = self.shared.begin_tick() {
            // No entry may be written between the two halves of a fork. While the session is paused
            // every entry is refused: idle periods are recorded after it.
            if session_state::word() & session_state::PAUSED == 0 && !session_state::is_forking() {
                match (is_running, is_periodic) {
                    (true, true) => self.tick(),
                    (true, false) => self.recorder.refresh_if_due(),
                    (false, _) => self.record_all_idle_periods(),
                }
            }
            self.shared.end_tick();
            self.shared.sleep(schedule.after_tick(now()));
        }
        self.record_all_idle_periods();
    }

    fn tick(&mut self) {
        let at = Timestamp::now();
        let begin = tasks::own_cpu_ns();
        self.previous_at = std::mem::replace(&mut self.at, at);
        self.number += 1;
        self.read_counters(at);
        let counted = tasks::own_cpu_ns();
        if self.features.contains(Features::STACK_WALK) {
            self.recorder.refresh_if_due();
        }
        let has_changed = self
            .targets
            .refresh(&self.recorder.manager, &mut self.recorder.notices);
        while let Some((thread, mut idle)) = self.targets.take_unrecorded() {
            self.recorder.record_idle_period(thread, &mut idle);
        }
        if has_changed {
            let targets = &self.targets;
            self.recorder
                .writer
                .keep_only(|thread| targets.contains(thread));
        }
        self.sample_all();
        count(&self.shared.counts.ticks, 1);
        let end = tasks::own_cpu_ns();
        self.recorder.writer.overhead(&OverheadEntry {
            at,
            locking_ns: 0, // waits for no lock while others record
            counters_ns: counted.saturating_sub(begin),
            threads_ns: end.saturating_sub(counted),
            total_ns: end.saturating_sub(begin),
        });
    }

    /// Reads counters of the process, once per tick.
    fn read_counters(&mut self, at: Timestamp) {
        self.counters.tick(&mut self.recorder.writer, at);
    }

    fn sample_all(&mut self) {
        let may_ask = self.captures.is_some() && signal::is_ours();
        self.until = now() + ANSWER;
        let first = self.left_over.take().unwrap_or(0);
        let all = self.targets.len();
        for turn in 0..all {
            let index = (first + turn) % all;
            if self
                .targets
                .get_mut(index)
                .is_some_and(|target| !target.is_idle)
                && !self.go_on(index, may_ask)
            {
                break;
            }
        }
        let is_waited_for = self.shared.is_waited_for();
        self.sample_idle_threads(
            if is_waited_for {
                usize::MAX
            } else {
                CHECKS_PER_TICK
            },
            may_ask,
        );
        self.collect();
        if is_waited_for {
            self.record_all_idle_periods();
        }
    }

    /// Checks at most `checks` of the idle threads.
    fn sample_idle_threads(&mut self, checks: usize, may_ask: bool) {
        let first = self.next_at_rest;
        let all = self.targets.len();
        let mut left = checks;
        for turn in 0..all {
            let index = (first + turn) % all;
            let number = self.number;
            let is_due = |target: &mut Target| target.is_idle && target.looked < number;
            if self.targets.get_mut(index).is_some_and(is_due) {
                if left == 0 || !self.go_on(index, may_ask) {
                    break;
                }
                left -= 1;
            }
            self.next_at_rest = index + 1;
        }
    }

    /// Samples a thread. Returns false if the sampler must end: a stop waits only for threads that
    /// were signalled already.
    fn go_on(&mut self, index: usize, may_ask: bool) -> bool {
        let goes_on = !self.shared.is_ending();
        if goes_on {
            self.sample(index, may_ask);
        }
        goes_on
    }

    fn sample(&mut self, index: usize, may_ask: bool) {
        let at = self.at;
        let number = self.number;
        let most_unrecorded = self.most_unrecorded;
        let Some(target) = self.targets.get_mut(index).filter(|target| !target.is_gone) else {
            return;
        };
        let ticks = number.saturating_sub(std::mem::replace(&mut target.looked, number));
        let now = tasks::cpu_ns(target.tid);
        let Some(cpu_ns) = now.and_then(|now| now.checked_sub(target.cpu)) else {
            target.is_gone = true; // or another thread has its number
            return;
        };
        target.left_alone = target.left_alone.saturating_sub(1);
        let before = target.cpu;
        target.cpu = target.cpu.saturating_add(cpu_ns);
        let step = step(target, cpu_ns, number, may_ask);
        let was_idle = std::mem::replace(&mut target.is_idle, step == Step::Idle);
        if was_idle && step != Step::Idle && ticks > 1 {
            // The thread was not checked at every tick, and woke after the last check: count it as
            // idle until the previous tick.
            target.idle.go_on(ticks - 1, self.previous_at);
        }
        if step == Step::Idle {
            target.idle.go_on(ticks, at);
            self.is_all_told = false;
        }
        if step == Step::Idle && !target.idle.is_long(most_unrecorded) {
            return;
        }
        self.recorder
            .record_idle_period(target.tid, &mut target.idle);
        match step {
            Step::Idle => {}
            Step::Nothing => target.cpu = before,
            Step::Repeat => self.recorder.repeat(target, cpu_ns),
            Step::Cpu => self.recorder.record_cpu(target, cpu_ns),
            Step::Peek(wait) => {
                if !self.recorder.peek(target, wait, cpu_ns) {
                    self.not_now(index, before); // it runs again: left for the next tick
                }
            }
            Step::Ask => self.ask(index, cpu_ns, before),
        }
    }

    /// Records all idle periods so far, so that a reader of the pool sees them.
    fn record_all_idle_periods(&mut self) {
        if std::mem::replace(&mut self.is_all_told, true) {
            return;
        }
        for target in self.targets.iter_mut() {
            self.recorder
                .record_idle_period(target.tid, &mut target.idle);
        }
    }

    /// Leaves a thread without a sample at this tick, unless it had none for many ticks.
    fn not_now(&mut self, index: usize, cpu_before: u64) {
        let Some(target) = self.targets.get_mut(index) else {
            return;
        };
        let cpu_ns = target.cpu.saturating_sub(cpu_before);
        match unless_unseen_for_long(target, Step::Nothing) {
            Step::Cpu => self.recorder.record_cpu(target, cpu_ns),
            _ => target.cpu = cpu_before,
        }
    }

    fn ask(&mut self, index: usize, cpu_ns: u64, cpu_before: u64) {
        if self.asked.len() == SLOTS {
            self.collect();
        }
        let mut asking = self.send(index);
        if matches!(asking, Asking::NoSlot) {
            self.collect();
            asking = self.send(index);
        }
        let Some(target) = self.targets.get_mut(index) else {
            return;
        };
        match asking {
            Asking::Sent(ticket) => self.asked.push(Asked {
                target: index,
                ticket,
                cpu_ns,
                cpu_before,
            }),
            Asking::NoSlot | Asking::Late => {
                self.left_over.get_or_insert(index);
                target.put_back(cpu_before);
            }
            Asking::No => {
                target.wait = None; // so that its next sample records where it waits
                self.not_now(index, cpu_before);
            }
            Asking::Failed => missed(&self.shared, target, cpu_before),
        }
    }

    fn send(&mut self, index: usize) -> Asking {
        let is_late = now() >= self.until;
        let (Some(target), Some(captures)) = (self.targets.get_mut(index), &mut self.captures)
        else {
            return Asking::No;
        };
        if is_late {
            return Asking::Late;
        }
        if is_deaf(&self.shared, target)
            || is_cramped(&mut self.recorder, target)
            || !may_be_asked(&self.shared, target)
        {
            return Asking::No;
        }
        match captures.ask(
            target.tid,
            target.bounds,
            self.recorder.labels_of(target.tid),
        ) {
            Some(Ok(ticket)) => Asking::Sent(ticket),
            Some(Err(error)) if error.raw_os_error() == Some(libc::ESRCH) => {
                target.is_gone = true;
                Asking::No
            }
            Some(Err(_)) => Asking::Failed,
            None => Asking::NoSlot,
        }
    }

    /// Waits for all pending answers and records them.
    fn collect(&mut self) {
        let until = self.until;
        while let Some(asked) = self.asked.pop() {
            let (Some(target), Some(captures)) =
                (self.targets.get_mut(asked.target), &mut self.captures)
            else {
                continue;
            };
            take_in(captures, &mut self.recorder, target, asked, until);
        }
    }
}

/// Waits for one thread and records its answer. If its stack was not known yet, asks it once more.
fn take_in(
    captures: &mut Captures,
    recorder: &mut SampleRecorder,
    target: &mut Target,
    asked: Asked,
    until: Instant,
) {
    let Some(seen) = captures.wait(asked.ticket, until) else {
        return missed(&recorder.shared, target, asked.cpu_before);
    };
    if !seen.stack.words.is_empty() {
        target.missed = 0;
        return recorder.record_seen(target, &seen, asked.cpu_ns);
    }
    let sp = seen.registers.sp;
    let thread_pointer = seen.thread_pointer;
    let has_learned = seen.is_at_home && recorder.learn(target, sp, thread_pointer);
    if !has_learned || now() >= until || !may_be_asked(&recorder.shared, target) {
        target.missed = 0;
        // The thread ran on a stack other than its own.
        return recorder.record_seen(target, &seen, asked.cpu_ns);
    }
    let labels = recorder.labels_of(target.tid);
    let Some(Ok(ticket)) = captures.ask(target.tid, target.bounds, labels) else {
        return missed(&recorder.shared, target, asked.cpu_before);
    };
    match captures.wait(ticket, until) {
        Some(seen) => {
            target.missed = 0;
            recorder.record_seen(target, &seen, asked.cpu_ns);
        }
        None => missed(&recorder.shared, target, asked.cpu_before),
    }
}

/// Whether a signal may be sent. Called right before every signal: the tick may have waited for
/// other threads since.
fn may_be_asked(shared: &SamplerShared, target: &mut Target) -> bool {
    // A thread that took over the number has used less time.
    let is_there = tasks::cpu_ns(target.tid).is_some_and(|now| now >= target.cpu);
    target.is_gone |= !is_there;
    // A program that replaced our handler would get signals it did not ask for.
    let may_ask =
        is_there && !shared.is_ending() && !session_state::is_forking() && signal::is_ours();
    may_ask && may_be_signalled(target)
}

/// Whether a signal would overflow a thread's alternate stack: the system would then end the
/// process.
fn is_cramped(recorder: &mut SampleRecorder, target: &mut Target) -> bool {
    let is_cramped = alternate_stack::is_small(target.tid);
    if is_cramped {
        count(&recorder.shared.counts.deaf, 1);
        leave_alone(target);
        recorder.notices.record(Notice::SmallStack, || {
            let least = alternate_stack::least();
            format!("threads with an alternate signal stack of less than {least} bytes are not asked for stacks")
        });
    }
    is_cramped
}

/// Whether a thread blocks the signal. A pending signal could be consumed by a `sigwait` or a
/// `signalfd` for any signal.
fn is_deaf(shared: &SamplerShared, target: &mut Target) -> bool {
    target.may_be_deaf = target.may_be_deaf && tasks::blocks_signal(target.tid);
    if target.may_be_deaf {
        count(&shared.counts.deaf, 1);
        leave_alone(target);
    }
    target.may_be_deaf
}

fn missed(shared: &SamplerShared, target: &mut Target, cpu_before: u64) {
    count(&shared.counts.missed, 1);
    target.put_back(cpu_before);
    target.may_be_deaf = true;
    leave_alone(target);
}

/// Skips a thread for some ticks, more each time.
fn leave_alone(target: &mut Target) {
    target.missed = target.missed.saturating_add(1);
    target.left_alone = (1 << target.missed.min(9)).min(LONGEST_REST);
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::beside_a_waiting_thread;
    use super::*;
    use crate::ids::{ThreadId, ThreadIndex};

    fn target_of(tid: ThreadId) -> Target {
        Target::new(tid, ThreadIndex::PROCESS, true, None)
    }

    #[test]
    fn a_missed_thread_keeps_its_time_and_its_last_sample_is_not_repeated() {
        beside_a_waiting_thread(|tid, wait| {
            let mut target = target_of(tid);
            (target.cpu, target.wait, target.has_sample) = (500_000, Some(wait), true);
            assert_eq!(
                step(&mut target, 100_000, 1, true),
                Step::Repeat,
                "it waits where it waited"
            );
            let shared = SamplerShared::default();
            missed(&shared, &mut target, 400_000);
            assert_eq!((target.cpu, shared.stats().missed), (400_000, 1));
            assert!(target.left_alone > 0 && target.may_be_deaf);
            assert_eq!(
                step(&mut target, 100_000, 1, true),
                Step::Peek(wait),
                "not signalled, but read from outside"
            );
        });
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_found_before_it_is_asked() {
        let shared = SamplerShared::default();
        let mut hears = target_of(sys::current_thread_id());
        assert!(
            !is_deaf(&shared, &mut hears) && !hears.may_be_deaf,
            "once is enough"
        );
        assert_eq!((hears.left_alone, shared.stats().deaf), (0, 0));
        let body = || {
            signal::tests::block();
            let mut deaf = target_of(sys::current_thread_id());
            assert!(
                is_deaf(&shared, &mut deaf) && is_deaf(&shared, &mut deaf),
                "each time"
            );
            assert_eq!((deaf.left_alone, shared.stats().deaf), (4, 2));
        };
        std::thread::scope(|scope| scope.spawn(body).join().unwrap());
    }
}
