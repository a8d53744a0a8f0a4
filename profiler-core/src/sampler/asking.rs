//! Asks running threads for samples: with the source `signal`, the sampler's thread sends them the
//! signal.
//!
//! Called by `looking` for each thread that was just seen running. Nothing waits for the answer:
//! the handler fills a slot, as for a timer. A thread gets no further signal before it has answered
//! the last one.
//!
//! The rule: no signal is sent to a thread that waits or may be about to wait. A signal ends many
//! waiting calls with `EINTR`, which few programs expect. A thread that runs at a look may wait
//! when the signal arrives. So the thread is signalled only if it has not waited since the previous
//! look, or if it is [calm].
//!
//! [calm]: Habit::is_calm

use std::time::Duration;

use super::arming::leave_alone;
use super::targets::Target;
use crate::ids::ThreadId;
use crate::record::session_state;
use crate::sys::native::signal;
use crate::sys::native::tasks::{self, Wait};

/// The number of waits after which a thread counts as calm, if a signal ends none of them.
const CALM: u8 = 8;

/// The observed waits of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Habit {
    /// Whether it was seen in a wait that a signal ends.
    is_delicate: bool,
    /// The number of waits seen.
    calm: u8,
    /// The system's number of its waits when it was last seen running.
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

    /// Notes a wait in which the thread was seen; `None` if the system does not say which. `is_new`
    /// is false if an earlier look noted the same wait; the number of waits then stays the same.
    pub(super) fn note(&mut self, wait: Option<Wait>, is_new: bool) {
        let calm = self.calm;
        match wait {
            Some(wait) if !wait.is_in_a_call() => {} // a page fault
            Some(wait) => self.saw(wait.bears_signals() && signal::begins_calls_anew()),
            None => self.saw(false),
        }
        if !is_new {
            self.calm = calm;
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

    /// Whether it runs and has not waited since the previous look. Counts as a look.
    fn has_run_on(&mut self, thread: ThreadId) -> bool {
        let waits = tasks::waits_of_running(thread);
        waits.is_some() && std::mem::replace(&mut self.waits, waits) == waits
    }
}

/// Asks a thread for a sample if one is due, and a signal does no harm. Called when the thread was
/// just seen running.
pub(super) fn ask_if_due(target: &mut Target, interval: Duration) {
    let Some(armed) = target.armed else { return };
    target.left_alone = target.left_alone.saturating_sub(1);
    // A look is never exactly on time, so a sample is due after three quarters of the interval.
    let due = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX) / 4 * 3;
    let begun = armed.thread.begun();
    let is_due = armed.thread.untaken_cpu(target.cpu, 0) >= due && target.left_alone == 0;
    if !is_due || target.asked == Some(begun) {
        return;
    }
    let is_harmless = target.habit.is_calm() || target.habit.has_run_on(target.tid);
    // A program that has just replaced our handler would get a signal that it did not ask for.
    if !is_harmless || session_state::is_forking() || !signal::is_ours() {
        return;
    }
    match signal::send(target.tid, armed.word) {
        Ok(()) => target.asked = Some(begun),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => target.is_gone = true,
        Err(_) => leave_alone(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn a_running_thread_has_run_on_only_if_it_did_not_wait_between_two_looks() {
        let own = sys::current_thread_id();
        let mut habit = Habit::new();
        assert!(!habit.has_run_on(own), "the first look");
        // Several tries: a page fault may take the processor away.
        assert!((0..1000).any(|_| habit.has_run_on(own)));
        std::thread::sleep(Duration::from_millis(1));
        assert!(!habit.has_run_on(own), "it has waited since");
    }

    #[test]
    fn a_thread_once_seen_in_a_wait_that_a_signal_ends_is_never_calm_again() {
        let mut habit = Habit::new();
        assert!(!habit.is_calm());
        (0..CALM).for_each(|_| habit.saw(true));
        assert!(habit.is_calm());
        habit.note(None, true);
        (0..200).for_each(|_| habit.saw(true));
        assert!(!habit.is_calm());
    }
}
