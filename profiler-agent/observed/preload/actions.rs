//! Handlers of signals: the program neither replaces ours nor sees it.
//!
//! A program that asks for our signal gets what it asks for, as far as it can tell: its action is
//! kept here, and its handler is called for signals that no timer of ours has sent.
//!
//! Handlers of the program that run on an alternate signal stack hold our signal back while they
//! run: what is left of that stack may be too small for a second frame. The time that passes is in
//! the thread's next sample.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::layout::Notes;
use crate::process;
use crate::replaced::replaced;
use crate::signal_set::{SignalSet, bit};
use crate::threads;

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SIG_ERR: usize = usize::MAX;
const SA_SIGINFO: c_int = 4;
const SA_ONSTACK: c_int = 0x0800_0000;

/// `struct sigaction` of the C library, the same for glibc and musl.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProgramAction {
    handler: usize,
    mask: SignalSet,
    flags: c_int,
    restorer: usize,
}

const NO_ACTION: ProgramAction = ProgramAction {
    handler: SIG_DFL,
    mask: [0; 16],
    flags: 0,
    restorer: 0,
};

/// The program's action for our signal. A program that changes it from two threads at once gets
/// either one.
struct Kept(UnsafeCell<ProgramAction>);

// SAFETY: used only to report back what the program has stored; the handler uses the atomics below.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new(NO_ACTION));
static HANDLER: AtomicUsize = AtomicUsize::new(SIG_DFL);

replaced! {
    sigaction(signal: c_int, new: *const ProgramAction, old: *mut ProgramAction) -> c_int =
        |signal, new, old, call| {
            crate::forks::notice();
            if is_ours(signal) {
                keep(new, old);
                return 0;
            }
            let mut room = NO_ACTION;
            call(signal, adapted(new, &mut room), old)
        };
    signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| if is_ours(number) { keep_handler(handler) } else { call(number, handler) };
    bsd_signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| if is_ours(number) { keep_handler(handler) } else { call(number, handler) };
    sysv_signal(number: c_int, handler: usize) -> usize =
        |number, handler, call| if is_ours(number) { keep_handler(handler) } else { call(number, handler) };
    sigset(number: c_int, handler: usize) -> usize =
        |number, handler, call| if is_ours(number) { keep_handler(handler) } else { call(number, handler) };
    sigaltstack(new: *const c_void, old: *mut c_void) -> c_int = |new, old, call| {
        let done = call(new, old);
        // A thread with a timer that has a smaller stack now must not get a signal on it.
        if !new.is_null() && done == 0 && process::is_recorded() && process::may_call_system() && !threads::has_room_for_handler() {
            if let Some(row) = threads::row_of_caller() {
                threads::disarm(row);
            }
            process::note(Notes::SMALL_STACK);
        }
        done
    };
}

fn is_ours(signal: c_int) -> bool {
    process::is_recorded() && signal as u32 == process::configuration().signal
}

/// The action with a mask that fits our signal, in `room` if it must be changed.
fn adapted(new: *const ProgramAction, room: &mut ProgramAction) -> *const ProgramAction {
    let ours = bit(process::configuration().signal);
    // SAFETY: null, or an action of the caller.
    let Some(action) = (unsafe { new.as_ref() }).filter(|_| process::is_recorded()) else {
        return new;
    };
    *room = *action;
    let [mask, ..] = &mut room.mask;
    if action.flags & SA_ONSTACK != 0 {
        *mask |= ours;
    } else {
        *mask &= !ours;
    }
    room
}

/// Keeps the program's action for our signal, and returns the one before.
fn keep(new: *const ProgramAction, old: *mut ProgramAction) {
    // SAFETY: see `Kept`; no reference is made.
    let before = unsafe { KEPT.0.get().read() };
    // SAFETY: null, or an action of the caller.
    if let Some(action) = unsafe { new.as_ref() } {
        process::note(Notes::WANTS_SIGNAL);
        // SAFETY: as above.
        unsafe { KEPT.0.get().write(*action) };
        HANDLER.store(action.handler, Ordering::Release);
    }
    // SAFETY: null, or room of the caller for an action.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
}

/// The same for `signal`; returns the handler before.
fn keep_handler(handler: usize) -> usize {
    if handler == SIG_ERR {
        return SIG_ERR;
    }
    let mut before = NO_ACTION;
    let action = ProgramAction {
        handler,
        ..NO_ACTION
    };
    keep(&raw const action, &raw mut before);
    before.handler
}

/// Calls the program's handler for a signal that is not a timer's of ours. Without a handler the
/// signal is ignored: its default would end the process.
pub(crate) fn call_programs_handler(signal: i32, info: usize, context: usize) {
    let handler = HANDLER.load(Ordering::Acquire);
    if handler == SIG_DFL || handler == SIG_IGN {
        return;
    }
    type Handler = unsafe extern "C" fn(c_int, *const c_void, *const c_void);
    // SAFETY: the program has given this function as a handler. One of a single argument ignores
    // the others.
    let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
    // SAFETY: as above, with what the kernel has passed to our handler.
    unsafe {
        handler(
            signal,
            ptr::with_exposed_provenance(info),
            ptr::with_exposed_provenance(context),
        );
    }
}

const _: () = assert!(SA_SIGINFO == 4);
