//! Holds the sampler's signal back while a handler of the program runs on an alternate signal stack.
//!
//! The system puts the registers of an interrupted thread on the stack on which it runs, before any
//! handler can look. A handler that runs on an alternate stack may leave less of it than such a
//! frame needs, whatever the size of that stack: the signal would end the process, or overwrite other
//! memory. So the signal is added to the mask of each handler that has `SA_ONSTACK`. It then waits
//! until the handler returns. Nothing else of the program's action is changed.
//!
//! Called by the sampler's thread only, before threads get triggers and at passes. A handler that
//! the program installs is thus found some milliseconds later. The signal of perf events is not held
//! back, because a breakpoint inside such a handler would then end the process.
//!
//! Invariant: an action that the program sets meanwhile stays. The exchange of an action is atomic
//! and returns the one before, so an action that was replaced unseen is put back.

use std::io;
use std::time::{Duration, Instant};

use super::signal::{SIGNAL, current, is_handler};

/// The largest number of a signal.
const LAST: libc::c_int = 64;
/// The time between two looks at all actions: a look takes a system call for each signal.
const PAUSE: Duration = Duration::from_millis(20);
/// The most exchanges of one action at a look. More are needed only if the program sets the action
/// at the same time.
const TRIES: u32 = 8;

/// A flag that the C library adds to the actions that it sets.
const SA_RESTORER: libc::c_int = 0x0400_0000;

/// When the actions of the program are looked at.
#[derive(Debug, Default)]
pub(crate) struct HeldBack {
    last: Option<Instant>,
}

impl HeldBack {
    /// Looks at the actions of all signals, unless the last look was just now.
    pub(crate) fn look_if_due(&mut self, now: Instant) {
        let is_due = |last: Instant| now.saturating_duration_since(last) >= PAUSE;
        if self.last.is_none_or(is_due) {
            self.last = Some(now);
            hold_back();
        }
    }
}

fn hold_back() {
    for signal in (1..=LAST).filter(|signal| *signal != SIGNAL) {
        // The C library refuses its own signals.
        if let Ok(action) = current(signal)
            && is_at_risk(&action)
        {
            add_to_mask(signal, action);
        }
    }
}

/// Whether the handler may run on an alternate stack and can be interrupted by our signal.
fn is_at_risk(action: &libc::sigaction) -> bool {
    // SAFETY: the set of an action is initialised.
    let is_held_back = unsafe { libc::sigismember(&raw const action.sa_mask, SIGNAL) } == 1;
    is_handler(action.sa_sigaction) && action.sa_flags & libc::SA_ONSTACK != 0 && !is_held_back
}

/// Adds our signal to the mask of the action `seen`.
fn add_to_mask(signal: libc::c_int, seen: libc::sigaction) {
    let mut expected = seen;
    let mut next = with_ours(seen);
    for _ in 0..TRIES {
        let Ok(before) = exchange(signal, &next) else {
            return;
        };
        if is_same(&before, &expected) {
            return;
        }
        // The program has set another action, which our exchange has replaced.
        expected = next;
        next = match is_at_risk(&before) {
            true => with_ours(before),
            false => before,
        };
    }
}

fn with_ours(mut action: libc::sigaction) -> libc::sigaction {
    // SAFETY: adds a valid signal to an initialised set.
    unsafe { libc::sigaddset(&raw mut action.sa_mask, SIGNAL) };
    action
}

fn is_same(one: &libc::sigaction, other: &libc::sigaction) -> bool {
    let is_in = |action: &libc::sigaction, signal| {
        // SAFETY: the set of an action is initialised.
        unsafe { libc::sigismember(&raw const action.sa_mask, signal) }
    };
    one.sa_sigaction == other.sa_sigaction
        && (one.sa_flags ^ other.sa_flags) & !SA_RESTORER == 0
        && (1..=LAST).all(|signal| is_in(one, signal) == is_in(other, signal))
}

/// Sets the action of a signal; returns the one before.
fn exchange(signal: libc::c_int, new: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = *new;
    // SAFETY: the action is one of the program with a larger mask, or one of the program.
    let failed = unsafe { libc::sigaction(signal, new, &raw mut before) };
    match failed {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// The actions belong to the process.
    static ALONE: Mutex<()> = Mutex::new(());

    extern "C" fn one(_: libc::c_int) {}
    extern "C" fn other(_: libc::c_int) {}

    fn action(handler: extern "C" fn(libc::c_int), flags: libc::c_int) -> libc::sigaction {
        // SAFETY: all zeros are an action without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        (action.sa_sigaction, action.sa_flags) = (handler as *const () as usize, flags);
        action
    }

    #[test]
    fn only_handlers_on_an_alternate_stack_hold_the_signal_back() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (on_stack, plain) = (libc::SIGRTMAX() - 1, libc::SIGRTMAX() - 2);
        exchange(on_stack, &action(one, libc::SA_ONSTACK)).unwrap();
        exchange(plain, &action(one, libc::SA_RESTART)).unwrap();
        hold_back();
        let [on_stack, plain] = [on_stack, plain].map(|signal| current(signal).unwrap());
        let is_in = |action: &libc::sigaction| {
            // SAFETY: the set of an action is initialised.
            unsafe { libc::sigismember(&raw const action.sa_mask, SIGNAL) == 1 }
        };
        assert!(is_in(&on_stack) && !is_in(&plain));
        assert_eq!(on_stack.sa_sigaction, one as *const () as usize);
    }

    #[test]
    fn an_action_that_the_program_sets_meanwhile_stays() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let signal = libc::SIGRTMAX() - 3;
        let seen = action(one, libc::SA_ONSTACK);
        exchange(signal, &action(other, libc::SA_RESTART)).unwrap(); // after it was seen
        add_to_mask(signal, seen);
        let now = current(signal).unwrap();
        assert_eq!(now.sa_sigaction, other as *const () as usize);
        assert!(now.sa_flags & libc::SA_ONSTACK == 0);
    }
}
