//! Records a crash: claims the right to do so, and runs on the profiler's own stack.
//!
//! Called by the handler. A thread that crashes while another one records waits for it, because the
//! end of the process would cut the record off. Invariant: every wait is bounded.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_int;
use profiler_core::internal::crash_note::{Claimed, CrashClaim, claim, is_claimed};

use super::crash_marker::{CrashFacts, CrashMarker, address_text, registers_text};
use super::own_stack::OwnStack;
use super::passing_on::die_now;

/// How often a thread looks whether another one has recorded its crash; a millisecond apart.
const LOOKS: u32 = 2000;
/// The size of a stack for recording. An unwinder without optimisation needs about 16 KiB.
const STACK_BYTES: usize = 256 * 1024;

/// The stack on which a crash is recorded; belongs to the holder of the claim.
static STACK: OwnStack<STACK_BYTES> = OwnStack::new();
/// The stack for a crash in the recording of a crash.
static NESTED_STACK: OwnStack<STACK_BYTES> = OwnStack::new();
/// The crash that is being recorded.
static PRESENT: Place = Place(UnsafeCell::new(PresentCrash {
    signal: libc::SIGABRT,
    facts: CrashFacts {
        signal: "",
        reason: "",
        address: None,
    },
    context: MaybeUninit::uninit(),
}));
/// Whether the recording of a crash has crashed.
static HAS_CRASHED: AtomicBool = AtomicBool::new(false);

/// A crash, with a copy of its registers: the frame of a nested signal may overwrite the original.
struct PresentCrash {
    signal: c_int,
    facts: CrashFacts,
    context: MaybeUninit<libc::ucontext_t>,
}

struct Place(UnsafeCell<PresentCrash>);

// SAFETY: only the holder of the claim accesses it, and after a crash in the recording its handler,
// which runs on the same thread instead.
unsafe impl Sync for Place {}

/// Records the crash of the calling thread, if a session runs.
///
/// # Safety
/// `context` is the one that the kernel passed to a handler that still runs on this thread.
pub(super) unsafe fn record(signal: c_int, facts: CrashFacts, context: *const libc::ucontext_t) {
    for _ in 0..LOOKS {
        match claim() {
            // SAFETY: the caller's promise.
            Claimed::Mine(mine) => return unsafe { record_with(mine, signal, facts, context) },
            Claimed::Nested => record_nested(),
            Claimed::ByAnotherThread => wait_for_other(),
            Claimed::Off => return,
        }
    }
}

/// # Safety
/// As for [`record`].
#[inline(never)]
unsafe fn record_with(
    mut mine: CrashClaim,
    signal: c_int,
    facts: CrashFacts,
    context: *const libc::ucontext_t,
) {
    // SAFETY: this thread holds the claim, and no other code refers to the place.
    let present = unsafe { &mut *PRESENT.0.get() };
    (present.signal, present.facts) = (signal, facts);
    let copy = present.context.as_mut_ptr();
    // The kernel's structure may be shorter than that of the C library, which ends with room for
    // the floating-point registers; only the registers before it are read.
    // SAFETY: the kernel has written at least these bytes of the structure.
    unsafe {
        copy.cast::<u8>()
            .copy_from_nonoverlapping(context.cast(), registers_end())
    };
    // SAFETY: the registers of the context are valid.
    let body = || unsafe { write(&mut mine, &facts, copy, true) };
    // SAFETY: this thread holds the claim, so it alone uses the stack.
    let _ = unsafe { STACK.run(body) };
}

/// The end of the registers in the structure.
const fn registers_end() -> usize {
    std::mem::offset_of!(libc::ucontext_t, uc_mcontext) + size_of::<libc::mcontext_t>()
}

/// Records the crash without its stack, after the recording has crashed, and ends the process.
fn record_nested() -> ! {
    // SAFETY: this thread holds the claim, and the code that has used the place does not go on.
    let present = unsafe { &*PRESENT.0.get() };
    if !HAS_CRASHED.swap(true, Ordering::AcqRel) {
        // SAFETY: the code that has the claim has crashed, and does not go on.
        let mut claim = unsafe { CrashClaim::of_nested() };
        let context = present.context.as_ptr();
        // SAFETY: the registers of the context are valid.
        let body = || unsafe { write(&mut claim, &present.facts, context, false) };
        // SAFETY: only the first nested crash comes here.
        let _ = unsafe { NESTED_STACK.run(body) };
    }
    die_now(present.signal)
}

/// Writes the crash into the pool.
///
/// # Safety
/// `context` has the registers that the kernel passed to a handler that still runs on this thread.
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
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    if is_claimed() {
        // SAFETY: reads the time, and sleeps.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}
