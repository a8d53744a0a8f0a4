//! Records a crash: claims the right to do so, and runs on the profiler's own stack.
//!
//! Called by the handler. A thread that crashes while another one records waits for it, because the
//! end of the process would cut the record off.
//!
//! Invariants: every wait is bounded. A fault in the recording ends the recording alone. Signals
//! that arrive meanwhile have another alternate stack, so that they overwrite neither the frame of
//! the handler nor its context.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use profiler_core::internal::crash_note::{Claimed, CrashClaim, CrashMarker, claim, is_claimed};

use super::arrived::Arrived;
use super::crash_marker::{CrashFacts, address_text, registers_text};
use super::own_stack::OwnStack;
use super::registers::stack_pointer;
use super::system::{bit, interrupted_mask, own_thread, send_again, set_mask, sleep_briefly};

/// How often a thread looks whether another one has recorded its crash; a millisecond apart.
const LOOKS: u32 = 2000;
/// The size of a stack for recording. An unwinder without optimisation needs about 16 KiB.
const STACK_BYTES: usize = 256 * 1024;
/// The size of the alternate stack meanwhile.
const NESTED_BYTES: usize = 64 * 1024;
/// The signals of faults, which are noticed while a crash is recorded.
const FAULTS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE);

/// The stack on which a crash is recorded; belongs to the holder of the claim.
static STACK: OwnStack<STACK_BYTES> = OwnStack::new();
/// The alternate stack of the thread that records; belongs to the holder of the claim.
static NESTED_STACK: OwnStack<NESTED_BYTES> = OwnStack::new();
/// The thread that runs on [`STACK`]; 0 if there is none.
static RECORDING: AtomicI32 = AtomicI32::new(0);

/// Makes an overflow of the stacks a fault.
pub(super) fn guard_stacks() {
    STACK.guard();
    NESTED_STACK.guard();
}

/// Treats a signal that has interrupted the recording of a crash; returns whether it has. A fault
/// ends the recording. A signal that was sent comes again after the recording.
///
/// # Safety
/// The signal is handled on this thread now.
pub(super) unsafe fn interrupts(arrived: &Arrived) -> bool {
    let recording = RECORDING.load(Ordering::Acquire);
    if recording == 0 || recording != own_thread() {
        return false;
    }
    // The signal of an abort is blocked, so the recording itself has aborted.
    if !arrived.cause.is_sent() || arrived.signal == libc::SIGABRT {
        // SAFETY: the caller's promise; this thread runs on the stack.
        return unsafe { STACK.leave(arrived.context) };
    }
    set_mask(!0);
    // SAFETY: the caller's promise.
    let mask = unsafe { interrupted_mask(arrived.context) };
    // SAFETY: the kernel has filled the mask in, and reads it when the handler returns.
    unsafe { *mask |= bit(arrived.signal) };
    // SAFETY: the caller's promise.
    unsafe { send_again(arrived.signal, arrived.info) };
    true
}

/// Records the crash of the calling thread, if a session runs.
///
/// # Safety
/// The signal is handled on this thread now.
pub(super) unsafe fn record(arrived: &Arrived) {
    for _ in 0..LOOKS {
        match claim() {
            // SAFETY: the caller's promise.
            Claimed::Mine(mine) => return unsafe { record_with(mine, arrived) },
            Claimed::ByAnotherThread => wait_for_other(),
            // Nested: a thread of the profiler that prepares for crashes has crashed.
            Claimed::Off | Claimed::Nested => return,
        }
    }
}

/// # Safety
/// As for [`record`].
#[inline(never)]
unsafe fn record_with(mut mine: CrashClaim, arrived: &Arrived) {
    let context = arrived.context.cast_const();
    // SAFETY: the caller's promise.
    let reason = arrived.cause.text(unsafe { stack_pointer(context) });
    let facts = CrashFacts {
        signal: arrived.cause.signal_name(),
        reason,
        address: arrived.cause.address(),
    };
    for with_stack in [true, false] {
        // SAFETY: the caller's promise.
        let body = || unsafe { write(&mut mine, &facts, context, with_stack) };
        // SAFETY: this thread holds the claim, and the handler's mask blocks the signals.
        if unsafe { guarded(body) } {
            return;
        }
    }
}

/// Runs `body` on the profiler's stack; false if a fault has ended it.
///
/// # Safety
/// The calling thread holds the claim, and all signals but those that no handler of this crate
/// handles are blocked. `body` owns nothing that must be dropped.
unsafe fn guarded<T>(body: impl FnOnce() -> T) -> bool {
    let mut before: Option<libc::stack_t> = None;
    let mask = set_mask(!bit(libc::SIGSYS));
    // SAFETY: this thread holds the claim, so it alone uses the stack.
    let done = unsafe {
        STACK.run(|| {
            before = exchange_alternate_stack(&NESTED_STACK.as_alternate());
            if before.is_some() {
                RECORDING.store(own_thread(), Ordering::Release);
                set_mask(!(FAULTS | bit(libc::SIGSYS)));
            }
            body();
        })
    };
    set_mask(mask | FAULTS); // a signal that was sent meanwhile waits
    RECORDING.store(0, Ordering::Release);
    if let Some(before) = before {
        exchange_alternate_stack(&before);
    }
    done.is_some()
}

/// Gives the thread another alternate stack; returns the one before.
fn exchange_alternate_stack(new: &libc::stack_t) -> Option<libc::stack_t> {
    let mut before = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    // SAFETY: the memory of the new stack is static, or was that of the thread before.
    let failed = unsafe { libc::sigaltstack(new, &raw mut before) } != 0;
    // A bit that the system only reports.
    before.ss_flags &= !libc::SS_ONSTACK;
    (!failed).then_some(before)
}

/// Writes the crash into the pool.
///
/// # Safety
/// `context` is the one that the kernel passed to a handler that still runs on this thread.
unsafe fn write(
    claim: &mut CrashClaim,
    facts: &CrashFacts,
    context: *const libc::ucontext_t,
    with_stack: bool,
) -> bool {
    // SAFETY: the caller's promise.
    let registers = unsafe { registers_text(context) };
    let address = address_text(facts.address);
    let marker = CrashMarker {
        signal: facts.signal,
        reason: facts.reason,
        address: address.text(),
        registers: registers.text(),
    };
    // SAFETY: the caller's promise.
    unsafe { claim.record(&marker, context, with_stack) }
}

/// Waits a millisecond while another thread records.
fn wait_for_other() {
    if is_claimed() {
        sleep_briefly();
    }
}
