//! The sampler's thread: one tick after the other.
//!
//! A tick looks for new threads, reads counters, and records one sample of every thread, by what disturbs it least:
//!
//! | since its last sample the thread | now | it is |
//! |---|---|---|
//! | used no processor time | – | "as before" |
//! | used some | runs, or waits for a futex | asked by a signal to copy its stack |
//! | used less than a [`MOMENT`] | runs | left for the next tick: it may be about to wait again |
//! | used some | waits for anything else | not signalled, since its call could fail with `EINTR`: its stack is read |
//! | used some | waits where it waited before | "as before", with the time that it used |
//!
//! Up to [`SLOTS`] threads are asked at once, so that threads which wait for a processor are waited for together.
//! A thread that does not answer within [`ANSWER`] is counted as missed and left alone for some ticks.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::capture::{Captures, SLOTS, Ticket};
use super::control::{Shared, count, is_periodic};
use super::counters::CounterSampler;
use super::eye::Eye;
use super::schedule::{Schedule, now};
use super::targets::{Target, Targets};
use crate::entry::periodic::OverheadEntry;
use crate::manager::ChunkManager;
use crate::params::{Features, SessionParams};
use crate::record::{gate, local};
use crate::sys;
use crate::sys::native::{signal, tasks};
use crate::sys::native::tasks::{Doing, Wait};
use crate::thread::ThreadFilter;
use crate::time::Timestamp;

/// A thread that waits for a processor for longer counts as missed.
const ANSWER: Duration = Duration::from_millis(100);
/// Whoever wakes for less than this and waits again, as event loops do when there is nothing to do, is not caught
/// while it is awake: the signal would come when it waits already.
const MOMENT: u64 = 30_000;
/// Most ticks for which a thread that does not answer is left alone.
const LONGEST_REST: u32 = 512;
/// Without periodic samples the modules are looked at so often, for the stacks of markers.
const IDLE: Duration = Duration::from_millis(250);

/// Starts the thread. `None` if there is none to be had.
pub(super) fn run(
    shared: Arc<Shared>,
    manager: Arc<ChunkManager>,
    params: &SessionParams,
    filter: ThreadFilter,
) -> Option<JoinHandle<()>> {
    let (features, interval) = (params.features, Duration::from_nanos(params.interval_ns));
    let body = move || {
        let mut ticker = Ticker::new(Arc::clone(&shared), manager, features, filter);
        ticker.run(interval);
        ticker.eye.close();
        shared.has_ended();
    };
    sys::spawn_quiet("profiler-stacks", body).ok()
}

/// What to do with a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Repeat,
    Cpu,
    Peek(Wait),
    Ask,
}

/// A thread that was asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    target: usize,
    ticket: Ticket,
    cpu_ns: u64,
}

#[derive(Debug)]
struct Ticker {
    shared: Arc<Shared>,
    eye: Eye,
    targets: Targets,
    captures: Option<Captures>,
    asked: Vec<Asked>,
    features: Features,
    counters: CounterSampler,
}

impl Ticker {
    fn new(
        shared: Arc<Shared>,
        manager: Arc<ChunkManager>,
        features: Features,
        filter: ThreadFilter,
    ) -> Self {
        local::select_always();
        let measures_cpu = features.contains(Features::CPU) || features.contains(Features::CPU_ALL_THREADS);
        let counters = CounterSampler::new(Arc::clone(&manager), features);
        let mut eye = Eye::new(manager, Arc::clone(&shared), measures_cpu);
        if features.contains(Features::STACK_WALK) {
            eye.look();
        }
        let asks = features.contains(Features::STACK_WALK) && is_periodic(features);
        let captures = if asks { Captures::new() } else { None };
        shared.is_ready();
        let asked = Vec::with_capacity(SLOTS);
        Self { shared, eye, targets: Targets::new(filter, features), captures, asked, features, counters }
    }

    fn run(&mut self, interval: Duration) {
        let is_periodic = is_periodic(self.features);
        let mut schedule = Schedule::new(if is_periodic { interval } else { IDLE }, now());
        while let Some(is_running) = self.shared.begin_tick() {
            // Nothing may happen between the two halves of a fork.
            if is_running && gate::word() & gate::PAUSED == 0 && !gate::is_forking() {
                if is_periodic {
                    self.tick();
                } else {
                    self.eye.look_if_due();
                }
            }
            self.shared.end_tick();
            self.shared.sleep(schedule.after_tick(now()));
        }
    }

    fn tick(&mut self) {
        let (at, begin) = (Timestamp::now(), now());
        self.read_counters(at);
        let counted = now();
        if self.features.contains(Features::STACK_WALK) {
            self.eye.look_if_due();
        }
        if self.targets.refresh(&self.eye.manager) {
            let targets = &self.targets;
            self.eye.writer.keep_only(|thread| targets.contains(thread));
        }
        self.sample_all();
        count(&self.shared.counts.ticks, 1);
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.eye.writer.overhead(&OverheadEntry {
            at,
            locking_ns: 0, // no lock is waited for while others record
            counters_ns: ns(counted.duration_since(begin)),
            threads_ns: ns(counted.elapsed()),
            total_ns: ns(begin.elapsed()),
        });
    }

    /// Counters of the process, once per tick.
    fn read_counters(&mut self, at: Timestamp) {
        self.counters.tick(&mut self.eye.writer, at);
    }

    fn sample_all(&mut self) {
        // Whoever took our place would get signals that it did not ask for.
        let may_ask = self.captures.is_some() && signal::is_ours();
        for index in 0..self.targets.len() {
            if self.shared.is_ending() {
                break; // a stop waits for the threads that are asked already, and for no more
            }
            self.sample(index, may_ask);
        }
        self.collect();
    }

    fn sample(&mut self, index: usize, may_ask: bool) {
        let Some(target) = self.targets.get_mut(index).filter(|target| !target.is_gone) else { return };
        let now = tasks::cpu_ns(target.tid);
        let Some(cpu_ns) = now.and_then(|now| now.checked_sub(target.cpu)) else {
            target.is_gone = true; // or another has its number
            return;
        };
        target.left_alone = target.left_alone.saturating_sub(1);
        let before = target.cpu;
        target.cpu = target.cpu.saturating_add(cpu_ns);
        match step(target, cpu_ns, may_ask) {
            Step::Nothing => target.cpu = before,
            Step::Repeat => self.eye.repeat(target, cpu_ns),
            Step::Cpu => self.eye.record_cpu(target, cpu_ns),
            Step::Peek(wait) => {
                if !self.eye.peek(target, wait, cpu_ns) {
                    target.cpu = before; // it runs again: next time
                }
            }
            Step::Ask => self.ask(index, cpu_ns),
        }
    }

    fn ask(&mut self, index: usize, cpu_ns: u64) {
        if self.asked.len() == SLOTS {
            self.collect();
        }
        let (Some(target), Some(captures)) = (self.targets.get_mut(index), &mut self.captures) else { return };
        match captures.ask(target.tid, target.bounds, self.eye.labels_of(target.tid)) {
            Some(Ok(ticket)) => self.asked.push(Asked { target: index, ticket, cpu_ns }),
            Some(Err(error)) if error.raw_os_error() == Some(libc::ESRCH) => target.is_gone = true,
            Some(Err(_)) | None => count(&self.shared.counts.missed, 1),
        }
    }

    /// Takes in what was asked for.
    fn collect(&mut self) {
        let until = now() + ANSWER;
        while let Some(asked) = self.asked.pop() {
            let (Some(target), Some(captures)) = (self.targets.get_mut(asked.target), &mut self.captures) else {
                continue;
            };
            take_in(captures, &mut self.eye, target, asked, until);
        }
    }
}

/// Waits for one thread and records what it did. One whose stack is not known yet is asked once more.
fn take_in(captures: &mut Captures, eye: &mut Eye, target: &mut Target, asked: Asked, until: Instant) {
    let Some(seen) = captures.wait(asked.ticket, until) else { return missed(eye, target) };
    if !seen.stack.words.is_empty() {
        target.missed = 0;
        return eye.record_seen(target, &seen, asked.cpu_ns);
    }
    let (sp, thread_pointer) = (seen.registers.sp, seen.thread_pointer);
    if !eye.learn(target, sp, thread_pointer) {
        return eye.record_seen(target, &seen, asked.cpu_ns); // on a stack that is not the thread's own
    }
    let labels = eye.labels_of(target.tid);
    let Some(Ok(ticket)) = captures.ask(target.tid, target.bounds, labels) else { return missed(eye, target) };
    match captures.wait(ticket, now() + ANSWER) {
        Some(seen) => {
            target.missed = 0;
            eye.record_seen(target, &seen, asked.cpu_ns);
        }
        None => missed(eye, target),
    }
}

fn missed(eye: &Eye, target: &mut Target) {
    count(&eye.shared.counts.missed, 1);
    target.missed = target.missed.saturating_add(1);
    let rest = if tasks::blocks_sigprof(target.tid) { LONGEST_REST } else { 1 << target.missed.min(9) };
    target.left_alone = rest.min(LONGEST_REST);
}

/// What to do with a thread that used so much processor time since its last sample.
fn step(target: &mut Target, cpu_ns: u64, may_ask: bool) -> Step {
    if cpu_ns == 0 && target.has_sample {
        return Step::Repeat;
    }
    if !target.walk {
        return Step::Cpu;
    }
    let wait = match tasks::doing(target.tid) {
        Doing::Waiting(wait) => wait,
        // Of a thread that the system says nothing about only its clock is known.
        Doing::Unknown if cpu_ns == 0 => return Step::Nothing,
        Doing::Running if cpu_ns < MOMENT => return Step::Nothing,
        Doing::Running | Doing::Unknown => {
            target.wait = None;
            return ask_unless_left_alone(target, may_ask);
        }
    };
    if target.has_sample && target.wait == Some(wait) {
        return Step::Repeat;
    }
    if cpu_ns > 0 && wait.bears_signals() {
        let step = ask_unless_left_alone(target, may_ask);
        target.wait = (step == Step::Ask).then_some(wait);
        return if step == Step::Ask { step } else { Step::Peek(wait) };
    }
    Step::Peek(wait)
}

fn ask_unless_left_alone(target: &Target, may_ask: bool) -> Step {
    if may_ask && target.left_alone == 0 { Step::Ask } else { Step::Nothing }
}
