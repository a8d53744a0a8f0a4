//! Gives threads their triggers, and takes the triggers from them.
//!
//! Called by `thread` at each pass. A thread gets no trigger if a signal would harm it: if it
//! blocks the signal, or if its alternate stack is too small. The time until the next attempt grows
//! with each attempt. If the sampler's thread has a filter of system calls that it did not have
//! when the session began, it makes no timers and no perf events. Threads that join a session arm
//! themselves (`armed`); this file finds them.
//!
//! Invariant: a trigger is released in the pass after the one in which its thread has ended or the
//! trigger was taken from it. By then the thread's last samples have been read.

use std::collections::HashMap;
use std::time::Duration;

use super::armed;
use super::armed_places::{self, Armed};
use super::control::count;
use super::notices::Notice;
use super::sample_handler;
use super::sample_recorder::SampleRecorder;
use super::targets::{Target, Targets};
use super::timer_rights;
use super::trigger::signal_of;
use crate::ids::ThreadId;
use crate::params::SampleSource;
use crate::sys::native::{alternate_stack, perf_event, signal, tasks};
use crate::time::Timestamp;

/// The maximum number of passes between two attempts to arm a thread.
const LONGEST_REST: u32 = 128;

/// The triggers of all threads, as the sampler's thread sees them.
#[derive(Debug)]
pub(super) struct Arming {
    source: SampleSource,
    interval: Duration,
    /// Whether stacks are sampled at all.
    walks: bool,
    /// Whether triggers may be made: false if the program has replaced the handler. `None` before
    /// the first pass, also before the first one after a pause.
    is_open: Option<bool>,
    /// Threads that armed themselves, by number, as of `changes`.
    by_itself: HashMap<ThreadId, Armed>,
    changes: u64,
    /// The changes of labels and the number of threads at the last update.
    label_changes: (u64, usize),
    /// Triggers to release, after the thread's last samples have been read.
    ending: Vec<Armed>,
    /// Triggers that this pass releases after it has read the slots.
    ended: Vec<Armed>,
    random: u64,
}

impl Arming {
    pub(super) fn new(source: SampleSource, interval: Duration, walks: bool) -> Self {
        Self {
            source,
            interval,
            walks,
            is_open: None,
            by_itself: HashMap::new(),
            changes: armed::changes(),
            label_changes: (0, 0),
            ending: Vec::new(),
            ended: Vec::new(),
            random: Timestamp::now().raw() | 1,
        }
    }

    /// Whether triggers must be deleted, because the program has replaced the handler. If not, lets
    /// threads arm themselves.
    pub(super) fn must_stop(&mut self) -> bool {
        let may_open = self.walks && sample_handler::is_installed_for(self.source);
        if self.is_open == Some(may_open) && armed::is_open() == may_open {
            return false;
        }
        if may_open {
            armed::open(self.source, self.interval);
        }
        self.is_open = Some(may_open);
        !may_open
    }

    /// Deletes all triggers. `drain` reads the last samples.
    pub(super) fn stop(&mut self, targets: &mut Targets, drain: impl FnOnce(&mut Targets)) {
        armed::close();
        drain(targets);
        for target in targets.iter_mut() {
            if let Some(armed) = target.armed.take() {
                let cpu = tasks::cpu_ns(target.tid).unwrap_or(target.cpu);
                let since = cpu.saturating_sub(target.recorded_cpu);
                target.recorded_cpu = cpu.saturating_sub(armed.thread.untaken_cpu(cpu, since));
            }
            target.asked = None;
        }
        self.by_itself.clear();
        self.ending.clear();
        self.ended.clear();
        armed::release_all();
        // After a pause, triggers may be made again.
        self.is_open = self.is_open.filter(|is_open| !is_open);
    }

    /// Gives all triggers another interval.
    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        let random = &mut self.random;
        armed::set_interval(interval, || {
            *random = next_random(*random);
            random_part(interval, *random)
        });
    }

    /// Arms new threads, and takes triggers from threads that a signal would harm.
    pub(super) fn update(&mut self, recorder: &mut SampleRecorder, targets: &mut Targets) {
        self.find_self_armed(targets);
        let is_open = self.is_open == Some(true);
        let may_arm = is_open && self.may_make_triggers();
        for target in targets.iter_mut() {
            if let Some(armed) = target.armed
                && (armed_places::armed_of(armed.word).is_none()
                    || alternate_stack::is_small(target.tid))
            {
                self.take_from(target);
            }
            if target.walk && !target.is_gone && target.armed.is_none() {
                self.label_changes = (0, 0);
                target.armed = self.by_itself.get(&target.tid).copied();
                if let Some(armed) = target.armed {
                    armed.thread.set_bounds(target.bounds);
                } else if may_arm {
                    self.arm(recorder, target);
                } else if is_open {
                    refuse(recorder);
                }
                set_main_stack(recorder, target);
            }
        }
        self.update_labels(recorder, targets);
    }

    /// Takes the trigger from a thread. The next call of [`Self::release`] releases it.
    pub(super) fn take_from(&mut self, target: &mut Target) {
        if let Some(armed) = target.armed.take() {
            // The processor time since the thread's last sample belongs to its samples without a
            // trigger.
            let cpu = tasks::cpu_ns(target.tid).unwrap_or(target.cpu);
            let since = cpu.saturating_sub(target.recorded_cpu);
            let untaken = armed.thread.take_cpu(cpu, since);
            target.recorded_cpu = cpu.saturating_sub(untaken);
            self.by_itself.remove(&target.tid);
            self.ending.push(armed);
        }
    }

    /// Releases the triggers noted so far, and notes those of removed threads for the next call:
    /// their last samples may have been published after this pass has read the slots.
    pub(super) fn release(&mut self, removed: impl Iterator<Item = Armed>) {
        self.ending.extend(removed);
        let ended = std::mem::replace(&mut self.ended, std::mem::take(&mut self.ending));
        for armed in ended {
            let tid = armed.tid();
            if self
                .by_itself
                .get(&tid)
                .is_some_and(|own| own.word == armed.word)
            {
                self.by_itself.remove(&tid);
            }
            armed.release();
        }
        if self.source == SampleSource::Sigtrap {
            perf_event::close_left_over();
        }
    }

    /// Whether the sampler's thread may make triggers.
    pub(super) fn may_make_triggers(&self) -> bool {
        self.source == SampleSource::Signal || timer_rights::may_manage()
    }

    /// Whether a thread blocks a signal that its trigger may send. `None` if the system does not
    /// report it.
    pub(super) fn is_deaf(&self, thread: ThreadId) -> Option<bool> {
        let is_deaf = tasks::blocks_signal(thread, signal_of(self.source))?;
        // A thread without a perf event may have a timer.
        let by_timer =
            self.source == SampleSource::Sigtrap && tasks::blocks_signal(thread, signal::SIGNAL)?;
        Some(is_deaf || by_timer)
    }

    /// Passes the label stacks of threads to their handlers, if a label stack may have changed.
    fn update_labels(&mut self, recorder: &mut SampleRecorder, targets: &mut Targets) {
        let changes = (recorder.label_changes(), targets.len());
        if std::mem::replace(&mut self.label_changes, changes) == changes {
            return;
        }
        for target in targets.iter_mut() {
            if let Some(armed) = target.armed {
                // A thread without labels may just be setting its own.
                if let Some(labels) = recorder.labels_of(target.tid) {
                    armed.thread.set_labels(labels);
                }
            }
        }
    }

    /// Finds threads that armed themselves since the last call. Forgets those that have ended and
    /// are not among the targets.
    fn find_self_armed(&mut self, targets: &mut Targets) {
        let changes = armed::changes();
        if std::mem::replace(&mut self.changes, changes) != changes {
            let is_ending = |armed: &Armed| {
                let mut all = self.ending.iter().chain(&self.ended);
                all.any(|ending| ending.word == armed.word)
            };
            self.by_itself = armed::self_armed()
                .filter(|armed| !is_ending(armed))
                .map(|armed| (armed.tid(), armed))
                .collect();
            for (tid, armed) in &self.by_itself {
                let Some(target) = targets.with_number(*tid) else {
                    continue;
                };
                armed.thread.set_bounds(target.bounds);
                let before = target.armed.replace(*armed);
                // The sampler's thread armed it, too.
                self.ending
                    .extend(before.filter(|before| before.word != armed.word));
            }
        }
        let ending = &mut self.ending;
        self.by_itself.retain(|tid, armed| {
            let has_ended = !targets.contains(*tid) && tasks::cpu_ns(*tid).is_none();
            if has_ended {
                ending.push(*armed);
            }
            !has_ended
        });
    }

    /// Arms a thread, unless a signal would harm it.
    fn arm(&mut self, recorder: &mut SampleRecorder, target: &mut Target) {
        target.left_alone = target.left_alone.saturating_sub(1);
        if target.left_alone > 0 {
            return;
        }
        let is_small = alternate_stack::is_small(target.tid);
        if is_small || self.is_deaf(target.tid).unwrap_or(true) {
            count(&recorder.shared.counts.deaf, 1);
            if is_small {
                recorder.record_small_stack();
            }
            return leave_alone(target);
        }
        self.random = next_random(self.random);
        let first = random_part(self.interval, self.random);
        let labels = || recorder.labels_of(target.tid);
        match armed::arm(target.tid, (first, self.interval), labels) {
            Ok(armed) => {
                target.armed = Some(armed);
                armed.thread.set_bounds(target.bounds);
            }
            // It arms itself, or a place of an ended thread is to be released: the next pass sees.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => target.is_gone = true,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => leave_alone(target),
            Err(error) => {
                recorder.notices.record(Notice::Timers, || {
                    format!(
                        "threads have no stacks while they run: the system gives no timer: {error}"
                    )
                });
                leave_alone(target);
            }
        }
    }
}

/// Records once that threads get no timer because of a filter of system calls.
pub(super) fn refuse(recorder: &mut SampleRecorder) {
    recorder.notices.record(Notice::Timers, || {
        "threads have no stacks while they run: a filter of system calls was installed after the \
         session began, and may not allow timers"
            .to_owned()
    });
}

/// Passes the bounds of the main thread's stack to the handler, because the first sample cannot
/// find them.
fn set_main_stack(recorder: &SampleRecorder, target: &mut Target) {
    let is_main = target.tid.get() == u64::from(std::process::id());
    if let (true, Some(armed), Some(bounds)) = (is_main, target.armed, recorder.main_stack()) {
        target.bounds = bounds;
        armed.thread.set_bounds(bounds);
    }
}

/// Does not arm or ask a thread for a number of passes, which doubles each time.
pub(super) fn leave_alone(target: &mut Target) {
    target.missed = target.missed.saturating_add(1);
    target.left_alone = (1 << target.missed.min(9)).min(LONGEST_REST);
}

/// The next number of a xorshift generator (Marsaglia, "Xorshift RNGs", 2003).
const fn next_random(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    number
}

/// A random part of the interval, never 0. So the threads of a process are not all sampled at the
/// same time.
fn random_part(interval: Duration, random: u64) -> Duration {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random % nanos.max(1) + 1)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_interval_is_set_only_while_samples_are_taken() {
        let _alone = crate::session::alone_in_tests();
        let hour = Duration::from_secs(3600);
        let mut arming = Arming::new(SampleSource::Timer, hour, true);
        arming.set_interval(hour);
        assert!(!armed::is_open());
        armed::open(SampleSource::Timer, hour);
        arming.set_interval(hour * 2);
        assert!(armed::is_open());
        armed::suspend();
        arming.set_interval(hour);
        assert!(!armed::is_open());
    }
}
