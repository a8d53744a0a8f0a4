//! The sampler's thread.
//!
//! A trigger makes its thread take a sample of itself while the thread runs (`trigger`,
//! `sample_handler`). The sampler's thread makes passes:
//!
//! ```text
//! counters ─▶ new and ended threads, their triggers ─▶ samples of the slots ─▶ looks at threads
//! ```
//!
//! If the triggers are timers or perf events, [`super::cadence`] determines the time between two
//! passes, and a handler can wake the sampler's thread earlier. With the source `signal`, and in
//! sessions without stacks, there is a pass at each interval while threads run. Such a pass asks
//! threads for samples (`asking`), or records their processor time. In a session without periodic
//! samples, the sampler's thread only keeps the modules up to date, for the stacks of markers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::activity::{ProcessClocks, ProgramActivity};
use super::armed;
use super::armed_places;
use super::arming::Arming;
use super::cadence::{self, Cadence, Passed};
use super::control::{SamplerConfig, SamplerShared, count, is_periodic};
use super::counters::CounterSampler;
use super::covered_time::CoveredTime;
use super::looking::Looking;
use super::overhead_budget::{Clocks, OverheadControl};
use super::quiet_period::QuietPeriod;
use super::run_delay::RunDelay;
use super::sample_handler::{self, Published, SlotReader};
use super::sample_recorder::SampleRecorder;
use super::schedule::now;
use super::source;
use super::targets::{RemovedTarget, Targets};
use crate::entry::periodic::OverheadEntry;
use crate::label::registry;
use crate::params::{Features, SampleSource};
use crate::record::{active_session, join, session_state};
use crate::sample_types::SAMPLER_THREAD;
use crate::sync::fixed::Ordering;
use crate::sys::native::{perf_event, tasks};
use crate::time::{Anchor, Timestamp};

/// The weight of the last pass in the average cost of passes is 1 of this number.
const COST_PASSES: u32 = 16;

/// Starts the thread. `None` if the system cannot create one.
pub(super) fn run(
    shared: Arc<SamplerShared>,
    config: SamplerConfig,
) -> Option<profiler_sys::QuietThread<()>> {
    let body = move || {
        let _last = Ending(Arc::clone(&shared));
        SamplerThread::new(shared, config).run();
    };
    profiler_sys::spawn_quiet(SAMPLER_THREAD, body).ok()
}

/// Reports the end of the sampler, also after a panic, so that no thread continues to wait for it.
struct Ending(Arc<SamplerShared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.has_ended();
    }
}

#[derive(Debug)]
struct SamplerThread {
    shared: Arc<SamplerShared>,
    recorder: SampleRecorder,
    targets: Targets,
    slots: SlotReader,
    counters: CounterSampler,
    arming: Arming,
    looking: Looking,
    cadence: Cadence,
    /// The interval in force, at least that of the session.
    control: OverheadControl,
    features: Features,
    /// The session's interval.
    interval: Duration,
    begun: Instant,
    is_paused: bool,
    activity: ProgramActivity,
    /// The average processor time of the last passes.
    pass_cost: Duration,
    /// Whether more than a quarter of the slots was full in the last pass.
    has_many_samples: bool,
}

/// Deletes all triggers, also after a panic.
impl Drop for SamplerThread {
    fn drop(&mut self) {
        armed::close();
        self.recorder.close();
        armed::release_all();
        perf_event::close_left_over();
    }
}

impl SamplerThread {
    fn new(shared: Arc<SamplerShared>, config: SamplerConfig) -> Self {
        let source = source::choose(&config);
        let SamplerConfig {
            manager,
            features,
            interval,
            filter,
            flush_counters,
            budget,
            source: _,
        } = config;
        active_session::select_always();
        let measures_cpu =
            features.contains(Features::CPU) || features.contains(Features::CPU_ALL_THREADS);
        let clock = manager.pool().clock().converter(Anchor::take());
        let tick = clock.ticks_in(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        let counters = CounterSampler::new(Arc::clone(&manager), features, flush_counters);
        let mut recorder = SampleRecorder::new(manager, Arc::clone(&shared), measures_cpu);
        let walks = features.contains(Features::STACK_WALK);
        if walks {
            recorder.refresh();
        }
        let collects = walks && source != SampleSource::Signal;
        if walks && is_periodic(features) {
            // Without our handler, no thread has a trigger: see `Arming::must_stop`.
            let _ = sample_handler::install();
            join::set_join_hook(armed::arm_own);
            registry::set_first_label_hook(armed_places::set_own_labels);
        }
        let sampler = Self {
            shared: Arc::clone(&shared),
            recorder,
            targets: Targets::new(filter, features),
            slots: SlotReader::new(),
            counters,
            arming: Arming::new(source, interval, walks),
            looking: Looking::new(source, interval, tick.max(1), walks),
            cadence: Cadence::new(collects || !is_periodic(features), interval),
            control: OverheadControl::new(budget, interval, tick),
            features,
            interval,
            begun: now(),
            is_paused: true,
            activity: ProgramActivity::new(),
            pass_cost: Duration::ZERO,
            has_many_samples: false,
        };
        shared.is_ready();
        sampler
    }

    fn run(&mut self) {
        loop {
            let bell = sample_handler::bell();
            let Some(is_running) = self.shared.begin_tick() else {
                break;
            };
            if session_state::word() & session_state::PAUSED != 0 {
                // Every entry is refused, so the samples in the slots are lost.
                self.stop_triggers();
                self.slots.drain(|_| {});
                self.is_paused = true;
                self.cadence.rest();
            } else if !session_state::is_forking() {
                // No entry may be written while the process forks.
                self.run_or_pause(is_running);
            }
            self.shared.end_tick();
            sample_handler::sleep(bell, self.cadence.next());
        }
        self.suspend();
    }

    fn run_or_pause(&mut self, is_running: bool) {
        if !is_periodic(self.features) {
            self.recorder.refresh_if_due();
        } else if is_running {
            self.resume_if_paused();
            self.pass();
        } else {
            if !std::mem::replace(&mut self.is_paused, true) {
                self.suspend();
            }
            self.cadence.rest();
        }
    }

    /// Deletes all triggers. Records the samples in the slots, unless the session is paused.
    fn stop_triggers(&mut self) {
        let Self {
            arming,
            targets,
            slots,
            recorder,
            looking,
            control,
            ..
        } = self;
        arming.stop(targets, |targets| {
            if session_state::word() & session_state::PAUSED == 0 {
                drain(slots, recorder, targets, (looking, control));
            }
        });
    }

    /// Deletes all triggers, and records the samples in the slots and the ends of all waits.
    fn suspend(&mut self) {
        self.stop_triggers();
        for target in self.targets.iter_mut() {
            self.looking
                .end_wait(&mut self.recorder, target.tid, &mut target.waits);
        }
    }

    /// Begins to take samples after a pause. No sample contains the processor time of the pause.
    fn resume_if_paused(&mut self) {
        if std::mem::replace(&mut self.is_paused, false) {
            for target in self.targets.iter_mut() {
                self.looking
                    .end_wait(&mut self.recorder, target.tid, &mut target.waits);
                target.cpu = tasks::cpu_ns(target.tid).unwrap_or(target.cpu);
                target.recorded_cpu = target.cpu;
                target.waits.has_run(false);
                target.waits.time = CoveredTime::since(Timestamp::now());
                target.delay = RunDelay::new();
            }
            self.looking.quiet = QuietPeriod::new(now());
            self.control.begin_anew();
        }
    }

    fn pass(&mut self) {
        let at = Timestamp::now();
        let clocks = ProcessClocks::read();
        let is_waited_for = self.shared.is_waited_for();
        self.counters
            .tick(&mut self.recorder.writer, at, clocks.process);
        let counted = tasks::own_cpu_ns();
        // If no thread has run, there are no new modules and no new threads.
        let has_run = self.activity.has_run(&clocks) || is_waited_for;
        self.looking.quiet.begin_pass(has_run, at);
        if has_run && self.features.contains(Features::STACK_WALK) {
            self.recorder.refresh_if_due();
        }
        if self.arming.must_stop() {
            self.stop_triggers();
        }
        let has_changed = self.update_targets(has_run);
        let has_work = self.collect_and_look(is_waited_for);
        if self.recorder.take_strays() || has_changed {
            let targets = &self.targets;
            self.recorder
                .writer
                .keep_only(|thread| targets.contains(thread));
        }
        self.looking.quiet.end_pass(clocks.read);
        let end = tasks::own_cpu_ns();
        let cost = Duration::from_nanos(end.saturating_sub(clocks.own_before));
        self.pass_cost = (self.pass_cost * (COST_PASSES - 1) + cost) / COST_PASSES;
        let passed = Passed {
            has_work,
            has_run,
            least: self.least_pause(clocks.cost()),
            most: cadence::longest_pause(cost),
        };
        self.cadence.has_passed(&passed, &self.slots);
        self.count_ticks();
        let handlers_ns = self.control.take_handlers_ns();
        count(&self.shared.counts.handlers_ns, handlers_ns);
        self.recorder.writer.overhead(&OverheadEntry {
            at,
            locking_ns: 0, // waits for no lock while others record
            counters_ns: counted.saturating_sub(clocks.own_before),
            threads_ns: end.saturating_sub(counted),
            total_ns: end.saturating_sub(clocks.own_before),
            handlers_ns,
            interval_ns: self.control.interval_ns(),
        });
        self.keep_budget(end);
    }

    /// The shortest time until the next pass, if a read of the process's clock takes `clock`.
    fn least_pause(&self, clock: Duration) -> Duration {
        let least = cadence::least_pause(clock, self.interval);
        let alternation = &self.looking.alternation;
        let moment = now();
        let least = if alternation.is_found(moment) {
            least.min(alternation.own_pause(self.pass_cost))
        } else if self.has_many_samples {
            least // passes that a handler begins would not be random
        } else {
            alternation.steady_pause(least, moment)
        };
        self.control.pause(least, cadence::IDLE.0)
    }

    /// Gives all triggers another interval, if the overhead budget requires it.
    fn keep_budget(&mut self, own_cpu_ns: u64) {
        let clocks = Clocks {
            at: self.begun.elapsed(),
            sampler_ns: own_cpu_ns,
            others_ns: self.activity.cpu_ns,
        };
        // A new filter of system calls may not allow another interval.
        let may_change = self.control.has_budget() && self.arming.may_make_triggers();
        if may_change && self.control.decide(clocks) {
            let interval = self.control.interval();
            self.looking.interval = interval;
            self.arming.set_interval(interval);
        }
    }

    /// Records the samples in the slots and looks at threads. Returns whether there was a sample or
    /// a thread that has run.
    fn collect_and_look(&mut self, is_waited_for: bool) -> bool {
        let Self {
            recorder,
            targets,
            slots,
            arming,
            looking,
            control,
            has_many_samples,
            ..
        } = self;
        let drained = drain(slots, recorder, targets, (looking, control));
        *has_many_samples = drained > slots.number() / 4;
        let removed = targets.take_removed();
        if drained > 0 || !removed.is_empty() {
            looking.quiet.unsettle();
        }
        arming.release(removed.iter().filter_map(|removed| removed.armed));
        recorder.exchange_waits(); // what was answered counts in the looks
        let woken = looking.look_at_all(recorder, targets, arming, is_waited_for);
        recorder.exchange_waits();
        looking.record_waits(recorder, targets, is_waited_for);
        drained + woken > 0
    }

    fn count_ticks(&self) {
        let interval = self.interval.as_nanos().max(1);
        let ticks = u64::try_from(self.begun.elapsed().as_nanos() / interval).unwrap_or(u64::MAX);
        self.shared.counts.ticks.store(ticks, Ordering::Relaxed);
    }

    /// Finds new threads and arms them; forgets ended threads. True if any were forgotten.
    fn update_targets(&mut self, may_list: bool) -> bool {
        let recorder = &mut self.recorder;
        let has_changed = self
            .targets
            .refresh(&recorder.manager, &mut recorder.notices, may_list);
        // This happens before the slots are read, because the last sample of an ended thread is
        // later than its wait.
        for RemovedTarget { tid, waits, .. } in self.targets.removed_mut() {
            self.looking.end_wait(recorder, *tid, waits);
        }
        self.arming.update(recorder, &mut self.targets);
        has_changed
    }
}

/// Records the samples that the handlers have published; returns their number.
fn drain(
    slots: &mut SlotReader,
    recorder: &mut SampleRecorder,
    targets: &mut Targets,
    (looking, control): (&Looking, &mut OverheadControl),
) -> usize {
    let drained = slots.drain(|published| {
        control.count_handler(published.held);
        let used = control.time_of(published.cpu_ns);
        record(recorder, targets, (looking, used), &published);
    });
    count(&recorder.shared.counts.missed, slots.take_lost());
    drained
}

/// Records a sample with the processor time `used`, in units of timestamps. If the sample ends a
/// wait, the wait is recorded first.
fn record(
    recorder: &mut SampleRecorder,
    targets: &mut Targets,
    (looking, used): (&Looking, u64),
    published: &Published<'_>,
) {
    let Published {
        seen, word, cpu_ns, ..
    } = published;
    let Some(armed) = armed_places::armed_of(*word) else {
        return;
    };
    armed.thread.end_sample();
    let (tid, tick) = (armed.tid(), looking.tick);
    let Some(target) = targets.with_number(tid) else {
        let ticks = used.saturating_add(tick / 2) / tick.max(1);
        return recorder.record_stray(tid, seen, *cpu_ns, ticks.max(1));
    };
    let ran = Timestamp::from_raw(seen.at.raw().saturating_sub(used));
    looking.quiet.prolong(&mut target.waits); // passes since then may have skipped all threads
    if let Some(unrecorded) = target.waits.end_at_sample(ran, tick) {
        recorder.record_wait(tid, unrecorded, false);
    }
    target.waits.has_run(false);
    let ticks = target.waits.time.run(seen.at, used, tick);
    if seen.stack.words.is_empty() && seen.is_at_home {
        recorder.learn(target, seen.registers.sp, seen.thread_pointer);
        if armed.thread.bounds() != target.bounds {
            armed.thread.set_bounds(target.bounds);
        }
    }
    (target.missed, target.left_alone) = (0, 0);
    recorder.record_seen(target, seen, *cpu_ns, ticks);
}
