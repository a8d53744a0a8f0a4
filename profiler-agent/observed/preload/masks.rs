//! Signal masks: no mask of the program holds the timers' signal back, and no wait of the program
//! for signals receives it.
//!
//! Each function takes the signal out of the set that it gets, in a copy. The set that the program
//! reads back is without it, too. A program that holds back or awaits this signal and few others
//! means it: the library gives way, and changes no set any more.

use core::ffi::{c_int, c_void};

use crate::own_action;
use crate::process;
use crate::replaced::replaced;
use crate::signal_set::{SignalSet, bit, is_meant};

const SIG_UNBLOCK: c_int = 1;

/// The set without the signal of the timers, in `room` if it contains the signal.
pub(crate) fn without_ours(set: *const SignalSet, room: &mut SignalSet) -> *const SignalSet {
    let ours = bit(process::configuration().signal);
    // SAFETY: null, or a set of the caller, of which only the first word is read.
    let first = unsafe { set.cast::<u64>().as_ref() };
    match first {
        Some(first) if process::is_recorded() && first & ours != 0 => {
            if is_meant(*first, process::configuration().signal) {
                own_action::give_way();
            }
            if process::has_given_way() {
                return set;
            }
            let [place, ..] = room;
            *place = first & !ours;
            room
        }
        _ => set,
    }
}

/// Calls with a set without our signal.
fn with_mask(set: *const SignalSet, call: impl FnOnce(*const SignalSet) -> c_int) -> c_int {
    let mut room = [0; 16];
    call(without_ours(set, &mut room))
}

replaced! {
    sigprocmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int =
        |how, set, old, call| changed(how, set, |set| call(how, set, old));
    pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int =
        |how, set, old, call| changed(how, set, |set| call(how, set, old));
    sigsuspend(set: *const SignalSet) -> c_int =
        |set, call| with_mask(set, call);
    sigwait(set: *const SignalSet, signal: *mut c_int) -> c_int =
        |set, signal, call| with_mask(set, |set| call(set, signal));
    sigwaitinfo(set: *const SignalSet, info: *mut c_void) -> c_int =
        |set, info, call| with_mask(set, |set| call(set, info));
    sigtimedwait(set: *const SignalSet, info: *mut c_void, timeout: *const c_void) -> c_int =
        |set, info, timeout, call| with_mask(set, |set| call(set, info, timeout));
    signalfd(descriptor: c_int, set: *const SignalSet, flags: c_int) -> c_int =
        |descriptor, set, flags, call| with_mask(set, |set| call(descriptor, set, flags));
    ppoll(descriptors: *mut c_void, count: usize, timeout: *const c_void, set: *const SignalSet) -> c_int =
        |descriptors, count, timeout, set, call| {
            with_mask(set, |set| call(descriptors, count, timeout, set))
        };
    pselect(
        most: c_int, reads: *mut c_void, writes: *mut c_void, errors: *mut c_void,
        timeout: *const c_void, set: *const SignalSet
    ) -> c_int = |most, reads, writes, errors, timeout, set, call| {
        with_mask(set, |set| call(most, reads, writes, errors, timeout, set))
    };
    epoll_pwait(
        epoll: c_int, events: *mut c_void, most: c_int, timeout: c_int, set: *const SignalSet
    ) -> c_int = |epoll, events, most, timeout, set, call| {
        with_mask(set, |set| call(epoll, events, most, timeout, set))
    };
    epoll_pwait2(
        epoll: c_int, events: *mut c_void, most: c_int, timeout: *const c_void,
        set: *const SignalSet
    ) -> c_int = |epoll, events, most, timeout, set, call| {
        with_mask(set, |set| call(epoll, events, most, timeout, set))
    };
}

/// Changes a mask. A set that is unblocked may contain our signal.
fn changed(
    how: c_int,
    set: *const SignalSet,
    call: impl FnOnce(*const SignalSet) -> c_int,
) -> c_int {
    crate::forks::notice();
    if how == SIG_UNBLOCK {
        return call(set);
    }
    with_mask(set, |reduced| {
        if reduced != set {
            own_action::hold();
        }
        call(reduced)
    })
}
