//! Decides how to sample a thread at a tick. The rule: never signal a thread that waits or may be
//! about to wait.
//!
//! A signal ends many waiting calls with `EINTR`, which few programs expect. A thread that runs
//! when it is checked may wait when the signal arrives, so one check is not enough. `thread` calls
//! this for each thread in turn.
//!
//! | since its last sample the thread | and now it | result |
//! |---|---|---|
//! | used no processor time | – | idle: nothing is recorded until it wakes, see `idle_period` |
//! | used less than a [`MOMENT`] | runs | left for the next tick |
//! | used some | runs, did not wait since the last check | signalled, to copy its stack |
//! | used some | runs, waited since the last check | left for the next tick, unless it is [calm] |
//! | used some | waits where it waited before | the previous sample again, with the time used |
//! | used some | waits for anything else | stack read from outside |
//! | used some | waits, at an unknown place | a sample of its processor time and labels |
//! | used some | not known to run or to wait | a sample of its processor time and labels |
//!
//! On x86-64 no waiting thread is signalled: its stack is read from outside (`frame_pointer`).
//!
//! On aarch64 the stack of a waiting thread cannot be unwound without the registers that the system
//! does not report. A program does not notice a signal in one kind of wait: a wait for a futex,
//! without a timeout, while the system restarts calls that our signal interrupts. Only in that wait
//! is a thread signalled: a calm thread at once, other threads after [`SETTLED`] ticks in the wait.
//!
//! A thread that used less than a [`MOMENT`] may be about to wait again. A thread that is [calm] is
//! signalled even if it waited since the last check.
//!
//! [calm]: Habit::is_calm

use super::targets::Target;
use crate::ids::ThreadId;
use crate::sys::native::signal;
use crate::sys::native::tasks::{self, Doing, Wait};

/// In nanoseconds. A thread that wakes for less than this and waits again, as idle event loops do,
/// is not signalled while it is awake: the signal would arrive after the thread waits again.
const MOMENT: u64 = 30_000;
/// The number of harmless waits in a row after which a thread counts as calm.
const CALM: u8 = 8;
/// The number of ticks in the same futex wait after which a thread is not expected to wake in the
/// microseconds that a signal takes.
const SETTLED: u64 = 64;
/// Whether a waiting thread is signalled for its registers, if it does not notice the signal.
const SIGNALS_WAITING_THREADS: bool = !cfg!(target_arch = "x86_64");
/// The number of ticks without a sample after which a running thread gets one without a stack.
const MOST_UNSEEN: u8 = 16;

/// How to sample a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No sample now: the time used is recorded with the next sample.
    Nothing,
    /// The thread is idle: nothing is recorded until it wakes.
    Idle,
    /// Records the previous sample again.
    Repeat,
    /// Records processor time and labels, without a stack.
    Cpu,
    /// Reads the stack of the waiting thread from outside.
    Peek(Wait),
    /// Signals the thread, whose handler copies the stack.
    Ask,
}

/// The observed waits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habit {
    /// Whether it was seen in a wait that a signal ends.
    is_delicate: bool,
    /// The number of waits seen that a signal does not end.
    calm: u8,
    /// The number of its waits when it was last seen running.
    waits: Option<u64>,
}

impl Habit {
    /// No waits seen yet.
    pub(super) const fn new() -> Self {
        Self {
            is_delicate: false,
            calm: 0,
            waits: None,
        }
    }

    /// Counts a wait. `bears_signals`: a signal would not have ended it.
    const fn saw(&mut self, bears_signals: bool) {
        self.is_delicate |= !bears_signals;
        self.calm = self.calm.saturating_add(1);
    }

    /// Whether several waits were seen, none of which a signal would have ended.
    const fn is_calm(&self) -> bool {
        !self.is_delicate && self.calm >= CALM
    }

    /// Whether it runs and has not waited since the previous check. Counts as a check.
    fn has_run_on(&mut self, thread: ThreadId) -> bool {
        let waits = tasks::waits_of_running(thread);
        waits.is_some() && std::mem::replace(&mut self.waits, waits) == waits
    }
}

/// Chooses the step for a thread that used `cpu_ns` of processor time since its last sample, at
/// tick number `tick`.
pub(super) fn step(target: &mut Target, cpu_ns: u64, tick: u64, may_ask: bool) -> Step {
    let may_ask = may_ask && target.left_alone == 0;
    if cpu_ns == 0 && target.has_sample {
        target.unseen = 0;
        return if SIGNALS_WAITING_THREADS && may_ask && is_worth_asking(target, tick) {
            Step::Ask
        } else {
            Step::Idle
        };
    }
    if !target.walk {
        return Step::Cpu;
    }
    let step = match tasks::doing(target.tid) {
        Doing::Waiting(wait) => waiting(target, wait, cpu_ns, tick, may_ask),
        Doing::WaitingSomewhere => {
            target.habit.saw(false);
            target.is_hidden = true;
            Step::Cpu
        }
        Doing::Unknown => {
            target.is_hidden = true;
            Step::Cpu
        }
        Doing::Running if cpu_ns < MOMENT => return Step::Nothing,
        Doing::Running => {
            target.wait = None;
            if may_ask { Step::Ask } else { Step::Nothing }
        }
    };
    unless_unseen_for_long(target, step)
}

fn waiting(target: &mut Target, wait: Wait, cpu_ns: u64, tick: u64, may_ask: bool) -> Step {
    let bears_signals = wait.bears_signals() && signal::begins_calls_anew();
    if wait.is_in_a_call() {
        target.habit.saw(bears_signals);
    }
    if target.has_sample && target.wait == Some(wait) {
        target.unseen = 0;
        return Step::Repeat;
    }
    target.waits_since = tick;
    if SIGNALS_WAITING_THREADS && cpu_ns > 0 && bears_signals && may_ask && target.habit.is_calm() {
        target.wait = Some(wait);
        return Step::Ask;
    }
    Step::Peek(wait)
}

/// Whether an idle thread is signalled once to replace a stack that was only read from outside.
fn is_worth_asking(target: &mut Target, tick: u64) -> bool {
    let is_settled = tick.saturating_sub(target.waits_since) >= SETTLED;
    let Some(wait) = target
        .wait
        .filter(|wait| !target.is_exact && is_settled && wait.bears_signals())
    else {
        return false;
    };
    target.is_exact = true; // once, whether it succeeds or not
    signal::begins_calls_anew() && tasks::doing(target.tid) == Doing::Waiting(wait)
}

/// Whether the thread is still in the state for which it was chosen to be signalled. This is the
/// last check before the signal: the sampler may have waited for other threads since the choice.
pub(super) fn may_be_signalled(target: &mut Target) -> bool {
    match target.wait {
        Some(wait) => tasks::doing(target.tid) == Doing::Waiting(wait),
        None if target.habit.is_calm() => tasks::doing(target.tid) == Doing::Running,
        None => target.habit.has_run_on(target.tid),
    }
}

/// Counts the ticks that end without a sample of a thread that ran.
pub(super) fn unless_unseen_for_long(target: &mut Target, step: Step) -> Step {
    if step != Step::Nothing {
        return step;
    }
    target.unseen = target.unseen.saturating_add(1);
    if target.unseen > MOST_UNSEEN {
        Step::Cpu
    } else {
        Step::Nothing
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::schedule::now;
    use super::*;
    use crate::ids::ThreadIndex;
    use crate::sys;

    fn target_of(tid: ThreadId) -> Target {
        Target::new(tid, ThreadIndex::PROCESS, true, None)
    }

    /// Runs `body` with a waiting thread and its wait.
    pub(in crate::sampler) fn beside_a_waiting_thread(body: impl FnOnce(ThreadId, Wait)) {
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let worker = scope.spawn(move || {
                sender.send(sys::current_thread_id()).unwrap();
                std::thread::park();
            });
            let tid = receiver.recv().unwrap();
            let deadline = now() + Duration::from_secs(60);
            let wait = loop {
                assert!(now() < deadline, "the thread does not begin to wait");
                match tasks::doing(tid) {
                    Doing::Waiting(wait) if wait.call == libc::SYS_futex => break wait,
                    _ => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            body(tid, wait);
            worker.thread().unpark();
        });
    }

    #[test]
    fn a_running_thread_is_signalled_only_if_it_did_not_wait_between_two_checks() {
        let mut own = target_of(sys::current_thread_id());
        assert!(
            !may_be_signalled(&mut own),
            "it has not been checked before"
        );
        // Several tries: a page fault may take the processor away.
        let runs_on = (0..1000).any(|_| may_be_signalled(&mut own));
        assert!(runs_on);
        std::thread::sleep(Duration::from_millis(1));
        assert!(!may_be_signalled(&mut own), "it has waited since");
    }

    #[test]
    fn a_waiting_thread_is_read_from_outside_and_at_most_signalled_once_settled() {
        beside_a_waiting_thread(|tid, wait| {
            let mut target = target_of(tid);
            assert_eq!(step(&mut target, 100_000, 10, true), Step::Peek(wait));
            (target.wait, target.has_sample) = (Some(wait), true); // as after a sample
            assert_eq!(step(&mut target, 0, 9 + SETTLED, true), Step::Idle);
            let asks = if SIGNALS_WAITING_THREADS && signal::begins_calls_anew() {
                Step::Ask
            } else {
                Step::Idle
            };
            assert_eq!(step(&mut target, 0, 10 + SETTLED, true), asks);
            assert_eq!(step(&mut target, 0, 11 + SETTLED, true), Step::Idle, "once");
        });
    }

    #[test]
    fn a_thread_once_seen_in_a_wait_that_a_signal_ends_is_never_calm_again() {
        let mut habit = Habit::new();
        assert!(!habit.is_calm());
        (0..CALM).for_each(|_| habit.saw(true));
        assert!(habit.is_calm());
        habit.saw(false);
        (0..200).for_each(|_| habit.saw(true));
        assert!(!habit.is_calm());
    }

    #[test]
    fn a_thread_that_can_never_be_sampled_gets_samples_without_stacks() {
        let mut target = target_of(sys::current_thread_id());
        let mut steps =
            (0..=MOST_UNSEEN).map(|_| unless_unseen_for_long(&mut target, Step::Nothing));
        assert!(
            steps
                .by_ref()
                .take(usize::from(MOST_UNSEEN))
                .all(|step| step == Step::Nothing)
        );
        assert_eq!(steps.next(), Some(Step::Cpu));
    }
}
