//! A signal that the application has chosen for captures: a handler that counts it.
//!
//! Used by [`crate::capture_on`]. Invariants: a handler is installed only where the program has
//! none and does not ignore the signal; the handler only changes an atomic, so it may interrupt any
//! code; in a forked child it does what the default action does.
//!
//! The handler stays for the life of the process. If it were removed, a signal that is sent at that
//! time would end the process, because that is the default action of most signals. Without a user
//! the signal has no effect.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

#[cfg(not(any(target_vendor = "apple", target_os = "freebsd")))]
use libc::__errno_location as errno_location;
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
use libc::__error as errno_location;
use libc::c_int;

/// The numbers of signals are smaller than this on all systems.
const NUMBERS: usize = 129;
/// How often each signal has arrived.
static ARRIVED: [AtomicU64; NUMBERS] = [const { AtomicU64::new(0) }; NUMBERS];
/// Which signals have a [`ChosenSignal`].
static IS_USED: [AtomicBool; NUMBERS] = [const { AtomicBool::new(false) }; NUMBERS];
/// The process that has installed the handlers.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Why a signal cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// Without its own effect, the program could not be ended or stopped, or an error of the
    /// program would have no effect.
    Reserved,
    /// The program handles it or ignores it, or another capture uses it.
    Taken,
    /// The system refuses it.
    System(io::Error),
}

/// A signal that is counted.
#[derive(Debug)]
pub(crate) struct ChosenSignal {
    number: c_int,
    arrived: &'static AtomicU64,
    is_used: &'static AtomicBool,
}

impl ChosenSignal {
    /// Counts this signal from now on.
    pub(crate) fn install(number: c_int) -> Result<Self, Unusable> {
        if is_reserved(number) {
            return Err(Unusable::Reserved);
        }
        let place = usize::try_from(number).ok().filter(|number| *number > 0);
        let found = place.and_then(|place| Some((ARRIVED.get(place)?, IS_USED.get(place)?)));
        let invalid = || Unusable::System(io::ErrorKind::InvalidInput.into());
        let (arrived, is_used) = found.ok_or_else(invalid)?;
        if is_used.swap(true, Ordering::AcqRel) {
            return Err(Unusable::Taken);
        }
        let chosen = Self {
            number,
            arrived,
            is_used,
        };
        install_handler(number)?; // an error drops `chosen`
        Ok(chosen)
    }

    /// How often it has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Its number.
    pub(crate) const fn number(&self) -> c_int {
        self.number
    }
}

impl Drop for ChosenSignal {
    fn drop(&mut self) {
        self.is_used.store(false, Ordering::Release);
    }
}

/// Requests to end or to stop, and errors of a program itself.
const fn is_reserved(number: c_int) -> bool {
    matches!(
        number,
        libc::SIGINT
            | libc::SIGTERM
            | libc::SIGKILL
            | libc::SIGSTOP
            | libc::SIGTSTP
            | libc::SIGTTIN
            | libc::SIGTTOU
            | libc::SIGCONT
            | libc::SIGCHLD
            | libc::SIGILL
            | libc::SIGTRAP
            | libc::SIGABRT
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGSEGV
            | libc::SIGSYS
    )
}

fn install_handler(number: c_int) -> Result<(), Unusable> {
    // SAFETY: has no arguments and cannot fail.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Release);
    let new = action();
    match action_of(number).map_err(Unusable::System)?.sa_sigaction {
        libc::SIG_DFL => {}
        handler if handler == new.sa_sigaction => return Ok(()),
        _ => return Err(Unusable::Taken),
    }
    let before = exchange(number, &raw const new).map_err(Unusable::System)?;
    if before.sa_sigaction != libc::SIG_DFL && before.sa_sigaction != new.sa_sigaction {
        // Another thread of the program has installed a handler at the same time.
        let _ = exchange(number, &raw const before);
        return Err(Unusable::Taken);
    }
    Ok(())
}

/// The action with our handler. All other signals are blocked while it runs.
fn action() -> libc::sigaction {
    // SAFETY: all of its fields may be zero: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    action.sa_sigaction = count as extern "C" fn(c_int) as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    action
}

/// The present action of a signal.
fn action_of(number: c_int) -> io::Result<libc::sigaction> {
    exchange(number, std::ptr::null())
}

/// Sets the action of a signal, unless `new` is null. Returns the one before.
fn exchange(number: c_int, new: *const libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `new` is null or an action that lives through the call, with a handler that the
    // program or this file has defined; the present action is written to memory of its type.
    if unsafe { libc::sigaction(number, new, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written by the call; zeroed before it.
    Ok(unsafe { before.assume_init() })
}

/// The handler.
extern "C" fn count(number: c_int) {
    // SAFETY: has no arguments and cannot fail.
    let process = unsafe { libc::getpid() };
    if process != PROCESS.load(Ordering::Acquire) {
        return act_by_default(number, process);
    }
    let place = usize::try_from(number).ok();
    if let Some(arrived) = place.and_then(|place| ARRIVED.get(place)) {
        arrived.fetch_add(1, Ordering::Release);
    }
}

/// In a forked child: lets the signal do what it does without a handler, when this one returns.
fn act_by_default(number: c_int, process: c_int) {
    // SAFETY: returns the calling thread's own errno, which outlives this call.
    let errno = unsafe { errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    // SAFETY: the default action refers to no function.
    unsafe { libc::signal(number, libc::SIG_DFL) };
    // SAFETY: sends this process a signal.
    unsafe { libc::kill(process, number) };
    // SAFETY: as above.
    unsafe { *errno = before };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(number: c_int) {
        // SAFETY: sends the calling thread a signal that has a handler.
        assert_eq!(unsafe { libc::raise(number) }, 0);
    }

    #[test]
    fn a_signal_is_counted_and_has_one_user() {
        let number = libc::SIGHUP; // no other test of this program uses it
        let chosen = ChosenSignal::install(number).unwrap();
        let before = chosen.arrived();
        (0..3).for_each(|_| raise(number));
        assert_eq!((chosen.arrived() - before, chosen.number()), (3, number));
        let second = ChosenSignal::install(number).unwrap_err();
        assert!(matches!(second, Unusable::Taken), "{second:?}");
        drop(chosen);
        raise(number); // has no effect
        let again = ChosenSignal::install(number).unwrap();
        assert_eq!(again.arrived() - before, 4);
    }

    #[test]
    fn a_handler_of_the_program_and_an_ignored_signal_are_left_alone() {
        extern "C" fn of_the_program(_: c_int) {}
        let number = libc::SIGWINCH; // no other test of this program uses it
        let handler = of_the_program as extern "C" fn(c_int) as *const () as usize;
        for action in [handler, libc::SIG_IGN] {
            // SAFETY: a function of the right type, or none.
            unsafe { libc::signal(number, action) };
            let refused = ChosenSignal::install(number).unwrap_err();
            assert!(matches!(refused, Unusable::Taken), "{refused:?}");
            assert_eq!(action_of(number).unwrap().sa_sigaction, action);
        }
        // SAFETY: the default action refers to no function.
        unsafe { libc::signal(number, libc::SIG_DFL) };
        assert!(ChosenSignal::install(number).is_ok(), "it is free again");
    }

    #[test]
    fn signals_that_end_or_stop_a_program_and_numbers_that_are_none_are_refused() {
        for number in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGCHLD] {
            let refused = ChosenSignal::install(number).unwrap_err();
            assert!(matches!(refused, Unusable::Reserved), "{refused:?}");
        }
        for number in [-1, 0, 128, 1_000] {
            let refused = ChosenSignal::install(number).unwrap_err();
            assert!(matches!(refused, Unusable::System(_)), "{refused:?}");
        }
    }
}
