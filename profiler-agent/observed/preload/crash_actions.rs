//! The actions of the signals of crashes: ours is installed where the program has none.
//!
//! The program does not see ours, and replaces it like the default action. Ours is removed before a
//! filter of system calls is installed, because the handler could then not end the process in the
//! usual way.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::own_action::set_action_of;
use crate::own_action::{DEFAULT, KernelAction, NO_ACTION, ProgramAction, SIG_DFL, action_of};

/// `SIGILL`, `SIGTRAP`, `SIGABRT`, `SIGBUS`, `SIGFPE`, `SIGSEGV`.
const SIGNALS: [u32; 6] = [4, 5, 6, 7, 8, 11];

/// The address of our handler; 0 if it is not installed.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// Installs our action for each of the signals whose action is the default.
pub(crate) fn install(own: KernelAction) {
    HANDLER.store(own.handler, Ordering::Release);
    for signal in SIGNALS {
        if action_of(signal).is_some_and(|action| action.handler == SIG_DFL) {
            set_action_of(signal, &own, &mut { DEFAULT });
        }
    }
}

/// Gives the signals their default action again, except those for which the program has another
/// one.
pub(crate) fn remove() {
    if HANDLER.load(Ordering::Acquire) != 0 {
        SIGNALS.into_iter().for_each(reset);
    }
}

/// The same for one of the signals.
pub(crate) fn reset(signal: u32) {
    if action_of(signal).is_some_and(|action| is_ours(action.handler)) {
        set_action_of(signal, &DEFAULT, &mut { DEFAULT });
    }
}

/// Whether an action has our handler.
fn is_ours(handler: usize) -> bool {
    handler != 0 && handler == HANDLER.load(Ordering::Acquire)
}

/// A handler as the program sees it.
pub(crate) fn shown(handler: usize) -> usize {
    if is_ours(handler) { SIG_DFL } else { handler }
}

/// An action as the program sees it.
pub(crate) fn shown_action(action: ProgramAction) -> ProgramAction {
    if is_ours(action.handler) {
        NO_ACTION
    } else {
        action
    }
}
