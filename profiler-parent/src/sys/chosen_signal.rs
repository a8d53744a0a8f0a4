//! A signal that the application has chosen for captures.
//!
//! Used by [`crate::capture_on`]. The handler is that of [`SignalBell`], and stays for the life of the
//! process. If it were removed, a signal that is sent at that time would end the process, because
//! that is the default action of most signals. Without a user the signal has no effect.
//!
//! Invariant: a signal has one user.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;

use super::signal_bell::{SignalBell, SignalTaken};

/// The numbers of signals are smaller than this on all systems.
const NUMBERS: usize = 129;
/// Which signals have a [`ChosenSignal`].
static IS_USED: [AtomicBool; NUMBERS] = [const { AtomicBool::new(false) }; NUMBERS];

/// Why a signal cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// Without its own effect, the program could not be ended or stopped, or an error of the
    /// program would have no effect.
    Reserved,
    /// The program handles it, ignores it or blocks it, or another capture uses it.
    Taken,
    /// The system refuses it.
    System(io::Error),
}

impl From<SignalTaken> for Unusable {
    fn from(taken: SignalTaken) -> Self {
        match taken {
            SignalTaken::System(error) => Self::System(error),
            SignalTaken::Handled | SignalTaken::Ignored | SignalTaken::Blocked => Self::Taken,
        }
    }
}

/// A signal that is counted.
#[derive(Debug)]
pub(crate) struct ChosenSignal {
    number: c_int,
    bell: SignalBell,
    is_used: &'static AtomicBool,
}

impl ChosenSignal {
    /// Counts this signal from now on.
    pub(crate) fn install(number: c_int) -> Result<Self, Unusable> {
        if is_reserved(number) {
            return Err(Unusable::Reserved);
        }
        let place = usize::try_from(number).ok().filter(|number| *number > 0);
        let invalid = || Unusable::System(io::ErrorKind::InvalidInput.into());
        let is_used = place
            .and_then(|place| IS_USED.get(place))
            .ok_or_else(invalid)?;
        if is_used.swap(true, Ordering::AcqRel) {
            return Err(Unusable::Taken);
        }
        match SignalBell::install(number) {
            Ok(bell) => Ok(Self {
                number,
                bell,
                is_used,
            }),
            Err(taken) => {
                is_used.store(false, Ordering::Release);
                Err(taken.into())
            }
        }
    }

    /// How often it has arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.bell.rings().into()
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

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    fn raise(number: c_int) {
        // SAFETY: sends the calling thread a signal that has a handler.
        assert_eq!(unsafe { libc::raise(number) }, 0);
    }

    #[test]
    fn a_signal_is_counted_and_has_one_user() {
        let number = libc::SIGVTALRM; // no other test of this program uses it
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
            // SAFETY: as above.
            assert_eq!(unsafe { libc::signal(number, action) }, action);
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
