//! The actions of the signals: those that were there before, and ours.
//!
//! Invariant: what a handler calls takes no lock and allocates nothing.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// A flag of an action: the handler gets the tag bits of addresses. Not in the C library's list.
const SA_EXPOSE_TAGBITS: c_int = 0x800;

/// A handler with three arguments.
pub(super) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The actions of one signal.
#[derive(Clone, Copy)]
struct Actions {
    before: libc::sigaction,
    ours: libc::sigaction,
}

/// Whether an earlier handler that asks for one call has been called. In the order of [`SIGNALS`].
static ARE_CALLED: [AtomicBool; SIGNALS.len()] = [const { AtomicBool::new(false) }; SIGNALS.len()];

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
    let is_settled =
        is_same(&present, handler as *const () as usize) || is_same(&present, libc::SIG_IGN);
    let Some(place) = place(signal).filter(|_| !is_settled) else {
        return Ok(());
    };
    let is_first = place.get().is_none();
    let actions = place.get_or_init(|| Actions {
        before: present,
        ours: action(&present, handler),
    });
    // Later, only a default is replaced: a handler may call ours, and ours calls the earlier one.
    if !is_first && (is_handler(&present) || is_handler(&actions.before)) {
        return Err(CrashError::Replaced { signal });
    }
    let replaced = set(signal, &actions.ours).map_err(error)?;
    if is_same(&replaced, present.sa_sigaction) {
        return Ok(());
    }
    // Another thread has changed the action meanwhile.
    set(signal, &replaced).map_err(error)?;
    Err(CrashError::Replaced { signal })
}

const fn is_same(action: &libc::sigaction, handler: usize) -> bool {
    action.sa_sigaction == handler
}

/// Our action: with all signals blocked except that of forbidden system calls, which a handler of
/// the program may carry out. On the alternate stack, unless the earlier handler is not: it may
/// need more stack than an alternate one has.
fn action(before: &libc::sigaction, handler: Handler) -> libc::sigaction {
    const KEPT: c_int = libc::SA_RESTART | libc::SA_ONSTACK | SA_EXPOSE_TAGBITS;
    let mut action = *before;
    action.sa_sigaction = handler as *const () as usize;
    let flags = match is_handler(before) {
        true => before.sa_flags & KEPT,
        false => libc::SA_RESTART | libc::SA_ONSTACK,
    };
    action.sa_flags = libc::SA_SIGINFO | flags;
    // SAFETY: initialises the set.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigdelset(&raw mut action.sa_mask, libc::SIGSYS) };
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

/// Sets an action; returns the one before.
fn set(signal: c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: an action that was there, or ours, whose handler is a static function.
    let failed = unsafe { libc::sigaction(signal, action, before.as_mut_ptr()) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has written it.
    Ok(unsafe { before.assume_init() })
}

/// Gives a signal its default action; returns the action before. For signal handlers.
pub(super) fn set_default(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros are an action without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    set(signal, &action).ok() // the system refuses no default of these signals
}

/// Gives a signal its default action, unless another handler has replaced ours. For signal
/// handlers.
pub(super) fn reset(signal: c_int) {
    let Some(actions) = place(signal).and_then(OnceLock::get) else {
        return;
    };
    let Some(replaced) = set_default(signal) else {
        return;
    };
    if !is_same(&replaced, actions.ours.sa_sigaction) {
        let _ = set(signal, &replaced); // it was there before
    }
}

/// Whether an earlier handler that asks for one call is called for the first time. For signal
/// handlers.
pub(super) fn is_first_call(signal: c_int) -> bool {
    let mut all = SIGNALS.iter().zip(&ARE_CALLED);
    let called = all.find_map(|(known, called)| (*known == signal).then_some(called));
    called.is_some_and(|called| !called.swap(true, Ordering::AcqRel))
}
