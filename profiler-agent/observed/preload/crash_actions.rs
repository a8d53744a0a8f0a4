//! Installs the handler of crashes for each crash signal whose action is the default.
//!
//! Functions of the C library report the default action in place of ours; a raw system call reports
//! ours. The program can replace our action like the default one. If it sets the default action
//! through the C library, ours is installed again. Ours is removed before a filter of system calls
//! is installed, because the handler could then not end the process in the usual way, and when a
//! thread has an alternate signal stack that is too small for a handler.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::own_action::{
    DEFAULT, Kept, KernelAction, NO_ACTION, ProgramAction, SIG_DFL, action_of, set_action_of,
};
use crate::process;
use crate::threads;

/// `SIGILL`, `SIGTRAP`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGSEGV`.
const CRASH_SIGNALS: [u32; 6] = [4, 5, 6, 7, 8, 11];

/// Our action. Written once, while the process has one thread.
static CRASH_ACTION: Kept<KernelAction> = Kept::new(DEFAULT);
/// The address of our handler; 0 if it was never installed.
static CRASH_HANDLER: AtomicUsize = AtomicUsize::new(0);
/// Whether the handler is installed for crash signals with the default action.
static IS_CRASH_HANDLER_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Installs our action for each of the signals whose action is the default.
pub(crate) fn install(own: KernelAction) {
    CRASH_ACTION.set(own);
    CRASH_HANDLER.store(own.handler, Ordering::Release);
    IS_CRASH_HANDLER_ACTIVE.store(true, Ordering::Release);
    CRASH_SIGNALS.into_iter().for_each(install_for);
}

fn install_for(signal: u32) {
    if action_of(signal).is_some_and(|action| action.handler == SIG_DFL) {
        set_action_of(signal, &CRASH_ACTION.get(), &mut { DEFAULT });
    }
}

/// Installs ours for this signal if the program has just set the default action.
pub(crate) fn install_again(signal: u32) {
    let may_install = IS_CRASH_HANDLER_ACTIVE.load(Ordering::Acquire)
        && CRASH_SIGNALS.contains(&signal)
        && process::is_recorded()
        && process::may_call_system()
        && threads::is_own_process();
    if may_install {
        install_for(signal);
    }
}

/// Restores the default action of each signal that has our handler. The handler is not installed
/// again.
pub(crate) fn remove() {
    if IS_CRASH_HANDLER_ACTIVE.swap(false, Ordering::AcqRel) {
        for signal in CRASH_SIGNALS {
            if action_of(signal).is_some_and(|action| is_ours(action.handler)) {
                reset(signal);
            }
        }
    }
}

/// Sets the default action, whatever the present one is.
pub(crate) fn reset(signal: u32) {
    set_action_of(signal, &DEFAULT, &mut { DEFAULT });
}

/// Whether an action has our handler.
fn is_ours(handler: usize) -> bool {
    handler != 0 && handler == CRASH_HANDLER.load(Ordering::Acquire)
}

/// A handler as the program sees it.
pub(crate) fn visible_handler(handler: usize) -> usize {
    if is_ours(handler) { SIG_DFL } else { handler }
}

/// An action as the program sees it.
pub(crate) fn visible_action(action: ProgramAction) -> ProgramAction {
    if is_ours(action.handler) {
        NO_ACTION
    } else {
        action
    }
}
