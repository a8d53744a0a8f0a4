//! Handlers of signals: the program neither replaces ours nor sees it.
//!
//! A program that asks for our signal gets what it asks for, as far as it can tell: see
//! [`own_action`].
//!
//! Handlers of the program that run on an alternate signal stack hold our signal back while they
//! run: what is left of that stack may be too small for a second frame. The time that passes is in
//! the thread's next sample.

use core::ffi::{c_int, c_void};

use crate::crash_actions;
use crate::layout::Notes;
use crate::own_action::{
    self, NO_ACTION, ProgramAction, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SIG_DFL,
    SIG_ERR,
};
use crate::process;
use crate::replaced::replaced;
use crate::signal_set::bit;
use crate::threads;

replaced! {
    sigaction(signal: c_int, new: *const ProgramAction, old: *mut ProgramAction) -> c_int =
        |signal, new, old, call| {
            crate::forks::notice();
            if is_ours(signal) {
                own_action::keep(new, old);
                return 0;
            }
            let mut room = NO_ACTION;
            let done = call(signal, adapted(new, &mut room), old);
            hide_ours(done, old);
            // SAFETY: null, or an action of the caller.
            if done == 0 && unsafe { new.as_ref() }.is_some_and(|new| new.handler == SIG_DFL) {
                crash_actions::install_again(signal as u32);
            }
            done
        };
    signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| {
            if is_ours(number) { own_action::keep_handler(handler, SA_RESTART) } else { after_handler_set(number, handler, call(number, handler)) }
        };
    bsd_signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| {
            if is_ours(number) { own_action::keep_handler(handler, SA_RESTART) } else { after_handler_set(number, handler, call(number, handler)) }
        };
    sysv_signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| {
            let flags = SA_RESETHAND | SA_NODEFER;
            if is_ours(number) { own_action::keep_handler(handler, flags) } else { after_handler_set(number, handler, call(number, handler)) }
        };
    sigset(number: c_int, handler: usize) -> usize =
        |number, handler, call| if is_ours(number) { own_action::set(handler) } else { after_handler_set(number, handler, call(number, handler)) };
    sigaltstack(new: *const c_void, old: *mut c_void) -> c_int = |new, old, call| {
        let done = call(new, old);
        // A thread with a timer that has a smaller stack now must not get a signal on it.
        if !new.is_null() && done == 0 && process::is_recorded() && process::may_call_system() && !threads::has_room_for_handler() {
            if let Some(row) = threads::row_of_caller() {
                threads::disarm(row);
            }
            process::note(Notes::SMALL_STACK);
            crash_actions::remove();
        }
        done
    };
}

/// Called after the program has set a handler. Returns the handler before as the program sees it.
fn after_handler_set(number: c_int, handler: usize, before: usize) -> usize {
    if handler == SIG_DFL && before != SIG_ERR {
        crash_actions::install_again(number as u32);
    }
    crash_actions::visible_handler(before)
}

fn is_ours(signal: c_int) -> bool {
    process::is_recorded() && signal as u32 == process::configuration().signal
}

/// The action with a mask that fits our signal, in `room` if it must be changed.
fn adapted(new: *const ProgramAction, room: &mut ProgramAction) -> *const ProgramAction {
    // SAFETY: null, or an action of the caller.
    let Some(action) = (unsafe { new.as_ref() }).filter(|_| process::is_recorded()) else {
        return new;
    };
    let ours = bit(process::configuration().signal);
    *room = *action;
    let [mask, ..] = &mut room.mask;
    if action.has(SA_ONSTACK) {
        *mask |= ours;
    } else {
        *mask &= !ours;
    }
    room
}

/// Takes our signal and our handlers out of the action that the program reads back.
fn hide_ours(done: c_int, old: *mut ProgramAction) {
    // SAFETY: null, or room of the caller, into which the C library has written an action.
    if let Some(old) = unsafe { old.as_mut() }.filter(|_| done == 0) {
        if process::is_recorded() {
            let [mask, ..] = &mut old.mask;
            *mask &= !bit(process::configuration().signal);
        }
        *old = crash_actions::visible_action(*old);
    }
}
