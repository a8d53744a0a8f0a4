//! The program's own action for our signal, which is kept here while ours is installed.
//!
//! [`receive`] does with signals that no timer of ours has sent what the kernel would do: it calls
//! the program's handler with the mask that the program expects, and ends the process if the
//! program has no handler. A program that waits for our signal, or holds it back, uses it otherwise
//! than by a handler: then this library gives way ([`give_way`]).

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::layout::Notes;
use crate::process;
use crate::raw::{Call, call, call3, process_id, thread_id};
use crate::signal_set::{SignalSet, bit};
use crate::threads;

pub(crate) const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SIG_HOLD: usize = 2;
pub(crate) const SIG_ERR: usize = usize::MAX;
pub(crate) const SA_SIGINFO: u64 = 4;
pub(crate) const SA_ONSTACK: u64 = 0x0800_0000;
pub(crate) const SA_RESTART: u64 = 0x1000_0000;
pub(crate) const SA_NODEFER: u64 = 0x4000_0000;
pub(crate) const SA_RESETHAND: u64 = 0x8000_0000;
const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;
const SIG_SETMASK: usize = 2;

/// `struct sigaction` of the C library, the same for glibc and musl.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ProgramAction {
    pub(crate) handler: usize,
    pub(crate) mask: SignalSet,
    flags: c_int,
    restorer: usize,
}

impl ProgramAction {
    pub(crate) fn has(&self, flag: u64) -> bool {
        u64::from(self.flags as u32) & flag != 0
    }
}

/// `struct sigaction` of the kernel. Both architectures have a restorer in it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct KernelAction {
    pub(crate) handler: usize,
    pub(crate) flags: u64,
    pub(crate) restorer: usize,
    pub(crate) mask: u64,
}

pub(crate) const DEFAULT: KernelAction = KernelAction {
    handler: SIG_DFL,
    flags: 0,
    restorer: 0,
    mask: 0,
};

const _: () = assert!(core::mem::offset_of!(KernelAction, mask) == 24);

pub(crate) const NO_ACTION: ProgramAction = ProgramAction {
    handler: SIG_DFL,
    mask: [0; 16],
    flags: 0,
    restorer: 0,
};

/// A value of which another thread reads either the old or the new one, or a mixture: a program
/// that changes one action from two threads at once gets either one.
pub(crate) struct Kept<T>(UnsafeCell<T>);

// SAFETY: no reference is made. A handler reads only atomics, or a value that is written once.
unsafe impl<T> Sync for Kept<T> {}

impl<T: Copy> Kept<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) fn get(&self) -> T {
        // SAFETY: see the type; no reference is made.
        unsafe { self.0.get().read() }
    }

    pub(crate) fn set(&self, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.0.get().write(value) };
    }
}

/// The program's action for our signal.
static KEPT: Kept<ProgramAction> = Kept::new(NO_ACTION);
/// Our own action, to change its flags.
static OWN: Kept<KernelAction> = Kept::new(DEFAULT);
static HANDLER: AtomicUsize = AtomicUsize::new(SIG_DFL);
/// What the program's handler holds back while it runs, and its flags.
static MASK: AtomicU64 = AtomicU64::new(0);
static FLAGS: AtomicU64 = AtomicU64::new(0);
/// Whether a thread has held the signal back: then its default does not end the process.
static IS_HELD: AtomicU32 = AtomicU32::new(0);

/// Installs our action, and keeps the one that this program has inherited. False if the system
/// refuses it.
pub(crate) fn install(own: KernelAction) -> bool {
    let mut inherited = own;
    if !set_action(&own, &mut inherited) {
        return false;
    }
    let kept = ProgramAction {
        handler: inherited.handler,
        ..NO_ACTION
    };
    OWN.set(own);
    KEPT.set(kept);
    HANDLER.store(inherited.handler, Ordering::Release);
    true
}

fn set_action(new: &KernelAction, old: &mut KernelAction) -> bool {
    set_action_of(process::configuration().signal, new, old)
}

/// Sets the action of a signal. Our handlers are static functions with the three arguments that
/// SA_SIGINFO promises. False if the system refuses it.
pub(crate) fn set_action_of(signal: u32, new: &KernelAction, old: &mut KernelAction) -> bool {
    // SAFETY: the kernel reads one action and writes another. A handler of ours is never unloaded.
    let done = unsafe {
        let (new, old) = (ptr::from_ref(new).addr(), ptr::from_mut(old).addr());
        call(Call::RT_SIGACTION, [signal as usize, new, old, 8, 0, 0])
    };
    done == 0
}

/// The action of a signal.
pub(crate) fn action_of(signal: u32) -> Option<KernelAction> {
    let mut action = DEFAULT;
    // SAFETY: the kernel writes one action into a local of its type.
    let done = unsafe {
        let old = (&raw mut action).addr();
        call(Call::RT_SIGACTION, [signal as usize, 0, old, 8, 0, 0])
    };
    (done == 0).then_some(action)
}

/// Keeps the program's action for our signal, and returns the one before. In a child of `vfork`,
/// whose memory is the parent's, it changes nothing.
pub(crate) fn keep(new: *const ProgramAction, old: *mut ProgramAction) {
    let before = match HANDLER.load(Ordering::Acquire) {
        SIG_DFL => NO_ACTION, // perhaps reset by its own call
        _ => KEPT.get(),
    };
    // SAFETY: null, or an action of the caller.
    if let Some(action) = unsafe { new.as_ref() }.filter(|_| is_in_own_process()) {
        if action.handler != SIG_DFL || before.handler != SIG_DFL {
            process::note(Notes::WANTS_SIGNAL);
        }
        KEPT.set(*action);
        let [mask, ..] = action.mask;
        MASK.store(mask, Ordering::Relaxed);
        FLAGS.store(u64::from(action.flags as u32), Ordering::Relaxed);
        HANDLER.store(action.handler, Ordering::Release);
        restart_as(action);
    }
    // SAFETY: null, or room of the caller for an action.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
}

fn is_in_own_process() -> bool {
    !process::may_call_system() || threads::is_own_process()
}

/// Lets our action interrupt slow system calls if the program's handler does.
fn restart_as(action: &ProgramAction) {
    if !process::may_call_system() {
        return;
    }
    let interrupts =
        action.handler != SIG_DFL && action.handler != SIG_IGN && !action.has(SA_RESTART);
    let mut own = OWN.get();
    if interrupts {
        own.flags &= !SA_RESTART;
    }
    set_action(&own, &mut { DEFAULT });
}

/// The same for `signal`; returns the handler before.
pub(crate) fn keep_handler(handler: usize, flags: u64) -> usize {
    if handler == SIG_ERR {
        return SIG_ERR;
    }
    let mut before = NO_ACTION;
    let action = ProgramAction {
        handler,
        flags: flags as u32 as c_int,
        ..NO_ACTION
    };
    keep(&raw const action, &raw mut before);
    before.handler
}

/// The same for `sigset`, which also holds the signal back, or stops to.
pub(crate) fn set(handler: usize) -> usize {
    if handler != SIG_HOLD {
        let before = keep_handler(handler, 0);
        if process::has_given_way() && process::may_call_system() {
            change_mask(SIG_UNBLOCK, bit(process::configuration().signal));
        }
        return before;
    }
    give_way();
    if process::may_call_system() {
        change_mask(SIG_BLOCK, bit(process::configuration().signal));
    }
    HANDLER.load(Ordering::Acquire)
}

/// Notes that a thread holds our signal back, as far as the program knows.
pub(crate) fn hold() {
    IS_HELD.store(1, Ordering::Relaxed);
}

/// Stops sampling: the program waits for our signal, or holds it back, and it alone. From now on
/// its masks and waits are its own. Our handler stays, for a timer's last signal.
pub(crate) fn give_way() {
    if !process::is_recorded() || !process::may_call_system() || !threads::is_own_process() {
        return;
    }
    process::note(Notes::WANTS_SIGNAL);
    process::set_given_way();
    threads::disarm_all();
}

/// Does with a signal that no timer of ours has sent what the kernel would do.
pub(crate) fn receive(signal: i32, info: usize, context: usize, mask: u64) {
    let handler = HANDLER.load(Ordering::Acquire);
    match handler {
        SIG_IGN | SIG_HOLD => {}
        SIG_DFL => end_by(signal),
        _ => call_programs_handler(handler, signal, info, context, mask),
    }
}

/// Ends the process by the signal, unless a thread holds it back or a filter may forbid it.
fn end_by(signal: i32) {
    let is_held = IS_HELD.load(Ordering::Relaxed) != 0 && !process::has_given_way();
    if is_held || !process::may_call_system() {
        return;
    }
    if set_action(&DEFAULT, &mut { DEFAULT }) {
        // SAFETY: sends a signal to the calling thread, which gets it when our handler returns.
        unsafe {
            call3(
                Call::TGKILL,
                process_id() as usize,
                thread_id() as usize,
                signal as usize,
            )
        };
    }
}

fn call_programs_handler(handler: usize, signal: i32, info: usize, context: usize, mask: u64) {
    let flags = FLAGS.load(Ordering::Relaxed);
    if flags & SA_RESETHAND != 0 {
        HANDLER.store(SIG_DFL, Ordering::Release);
    }
    if process::may_call_system() {
        let own = if flags & SA_NODEFER == 0 {
            bit(process::configuration().signal)
        } else {
            0
        };
        change_mask(SIG_SETMASK, mask | own | MASK.load(Ordering::Relaxed));
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

/// Gives the kernel the program's action before another program is executed, if that inherits it:
/// an ignored signal stays ignored. True if it was changed.
pub(crate) fn hand_over() -> bool {
    if HANDLER.load(Ordering::Acquire) != SIG_IGN || !process::may_call_system() {
        return false;
    }
    let ignored = KernelAction {
        handler: SIG_IGN,
        ..DEFAULT
    };
    set_action(&ignored, &mut { DEFAULT })
}

/// Takes our action again: the other program was not executed.
pub(crate) fn take_back() {
    let own = OWN.get();
    set_action(&own, &mut { DEFAULT });
}

/// Changes the mask of the calling thread.
fn change_mask(how: usize, set: u64) {
    // SAFETY: the kernel reads one word.
    unsafe {
        call(
            Call::RT_SIGPROCMASK,
            [how, (&raw const set).addr(), 0, 8, 0, 0],
        );
    }
}
