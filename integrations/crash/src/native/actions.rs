//! The actions of the signals: those that were there before, and ours.
//!
//! Invariant: what a handler calls takes no lock and allocates nothing.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use libc::c_int;

use crate::error::CrashError;

/// The signals of crashes.
pub(super) const SIGNALS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGTRAP,
];

/// The signals of faults, which the handler does not block.
const UNBLOCKED: [c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSYS,
];

/// A handler with three arguments.
pub(super) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The actions of one signal.
#[derive(Clone, Copy)]
struct Actions {
    before: libc::sigaction,
    ours: libc::sigaction,
}

/// In the order of [`SIGNALS`]. Set before our handler can run.
static ACTIONS: [OnceLock<Actions>; SIGNALS.len()] = [const { OnceLock::new() }; SIGNALS.len()];

/// Whether the action is a handler, and not the default or to ignore the signal.
pub(super) const fn is_handler(action: &libc::sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}

fn place(signal: c_int) -> Option<&'static OnceLock<Actions>> {
    let mut all = SIGNALS.iter().zip(&ACTIONS);
    all.find_map(|(known, place)| (*known == signal).then_some(place))
}

/// The action that a signal had before ours. For signal handlers.
pub(super) fn before(signal: c_int) -> Option<&'static libc::sigaction> {
    place(signal)?.get().map(|actions| &actions.before)
}

/// Whether no handler of ours was ever installed.
pub(super) fn are_all_new() -> bool {
    ACTIONS.iter().all(|place| place.get().is_none())
}

/// Installs the handler, unless it is installed. A signal that is ignored is left alone: programs
/// that the process executes inherit that it is ignored, and a handler would change this.
pub(super) fn install(signal: c_int, handler: Handler) -> Result<(), CrashError> {
    let error = |error| CrashError::Handler { signal, error };
    let present = current(signal).map_err(error)?;
    let is_ours = present.sa_sigaction == handler as *const () as usize;
    let Some(place) = place(signal).filter(|_| !is_ours) else {
        return Ok(());
    };
    if place.get().is_some() {
        return match is_handler(&present) {
            true => Err(CrashError::Replaced { signal }),
            // The earlier handler, or the program, has set the default.
            false => Ok(()),
        };
    }
    if present.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    let ours = action(&present, handler);
    let _ = place.set(Actions {
        before: present,
        ours,
    });
    set(signal, &ours).map_err(error)
}

/// Our action: on the alternate stack, with all signals blocked except those of faults, so that a
/// crash in the handler is noticed.
fn action(before: &libc::sigaction, handler: Handler) -> libc::sigaction {
    let mut action = *before;
    action.sa_sigaction = handler as *const () as usize;
    let restart = match is_handler(before) {
        true => before.sa_flags & libc::SA_RESTART,
        false => libc::SA_RESTART,
    };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | restart;
    // SAFETY: initialises the set.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    for signal in UNBLOCKED {
        // SAFETY: the set is initialised.
        unsafe { libc::sigdelset(&raw mut action.sa_mask, signal) };
    }
    action
}

fn current(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks, into memory of the right type.
    let failed = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has written it.
    Ok(unsafe { action.assume_init() })
}

fn set(signal: c_int, action: &libc::sigaction) -> io::Result<()> {
    // SAFETY: an action that was there, or ours, whose handler is a static function.
    let failed = unsafe { libc::sigaction(signal, action, ptr::null_mut()) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Gives a signal its default action. For signal handlers.
pub(super) fn set_default(signal: c_int) {
    // SAFETY: all zeros are an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    let _ = set(signal, &action); // the system refuses no default of these signals
}

/// Gives a signal its earlier action, if ours is there; returns whether it was. For signal
/// handlers.
pub(super) fn put_back(signal: c_int) -> bool {
    exchange(signal, |actions| (&actions.ours, &actions.before))
}

/// Installs ours again, if the earlier action is there. For signal handlers.
pub(super) fn install_again(signal: c_int) {
    exchange(signal, |actions| (&actions.before, &actions.ours));
}

/// Replaces the first action by the second one, if it is there.
fn exchange(
    signal: c_int,
    choose: impl Fn(&Actions) -> (&libc::sigaction, &libc::sigaction),
) -> bool {
    let Some(actions) = place(signal).and_then(OnceLock::get) else {
        return false;
    };
    let (from, to) = choose(actions);
    let is_there = current(signal).is_ok_and(|action| action.sa_sigaction == from.sa_sigaction);
    is_there && set(signal, to).is_ok()
}
