//! The two signal handlers, and the one slot that they fill.
//!
//! One signal at a time: who asks waits until `DONE` has grown. Invariant: between asking and that, only the handler
//! touches the slot; at all other times only who asks.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use framehop::{CacheNative, FrameAddress, MustNotAllocateDuringUnwind, UnwindRegsNative, Unwinder};
use profiler_core::time::Timestamp;
use rustix::thread::futex;

use super::modules::Tables;

/// As much as the sampler copies.
const STACK_WORDS: usize = 64 * 1024 / 8;
pub(super) const MOST_FRAMES: usize = 512;

/// How a stack is come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Copy = 0,
    Walk = 1,
}

impl Method {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Walk => "walk",
        }
    }
}

type Cache = CacheNative<MustNotAllocateDuringUnwind>;

/// What unwinding begins with.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    pc: u64,
    sp: u64,
    fp: u64,
    /// 0 where there is none.
    lr: u64,
}

/// What a handler works with.
pub(super) struct Slot {
    pub(super) method: Method,
    /// The upper end of the stack of the thread that is asked.
    pub(super) end: u64,
    cache: Option<Cache>,
    registers: Registers,
    stack: [u64; STACK_WORDS],
    words: usize,
    frames: [u64; MOST_FRAMES],
    /// Frames of the last stack.
    pub(super) count: usize,
    /// How far the last stack reached.
    pub(super) bytes: u64,
    /// Ticks of the clock that copying or walking took.
    pub(super) ticks: u64,
}

struct Shared(UnsafeCell<Slot>);

// SAFETY: touched by one at a time, see the head of the file.
unsafe impl Sync for Shared {}

static SLOT: Shared = Shared(UnsafeCell::new(Slot {
    method: Method::Copy,
    end: 0,
    cache: None,
    registers: Registers { pc: 0, sp: 0, fp: 0, lr: 0 },
    stack: [1; STACK_WORDS], // not zeros, so that its pages are there
    words: 0,
    frames: [1; MOST_FRAMES],
    count: 0,
    bytes: 0,
    ticks: 0,
}));

static TABLES: OnceLock<Tables> = OnceLock::new();
/// Signals answered so far.
pub(super) static DONE: AtomicU32 = AtomicU32::new(0);
/// Most bytes of its own stack that a handler of each method took.
static MOST_STACK: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// One that nothing else here uses.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// Puts the handler in place.
pub(super) fn install(tables: Tables) -> Result<()> {
    ensure!(TABLES.set(tables).is_ok(), "installed already");
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros are an action: the default one, with no flags and no mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler is a static function of three arguments.
    let failed = unsafe { libc::sigaction(signal(), action, std::ptr::null_mut()) };
    ensure!(failed == 0, "sigaction");
    Ok(())
}

/// The slot, for whoever asks.
///
/// # Safety
/// No signal is on its way, and nobody else has it.
#[allow(clippy::mut_from_ref)]
pub(super) unsafe fn slot() -> &'static mut Slot {
    // SAFETY: the caller's promise.
    unsafe { &mut *SLOT.0.get() }
}

/// An unwinder that has met nothing yet.
pub(super) fn forget(slot: &mut Slot) {
    slot.cache = Some(Cache::new_in());
}

/// Notes how much of its own stack a handler took.
pub(super) fn note_stack(method: Method, bytes: usize) {
    MOST_STACK[method as usize].fetch_max(bytes, Ordering::Relaxed);
}

/// The most of it.
pub(super) fn most_stack(method: Method) -> usize {
    MOST_STACK[method as usize].load(Ordering::Relaxed)
}

/// Signals a thread of this process, and waits until it has answered.
pub(super) fn ask(thread: libc::pid_t) -> Result<()> {
    let before = DONE.load(Ordering::Acquire);
    let process = std::process::id().cast_signed();
    // SAFETY: plain numbers; the thread is one of ours and lives.
    let failed = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) };
    ensure!(failed == 0, "tgkill");
    let timeout = rustix::fs::Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    for _ in 0..200 {
        if DONE.load(Ordering::Acquire) != before {
            return Ok(());
        }
        let _ = futex::wait(&DONE, futex::Flags::PRIVATE, before, Some(&timeout));
    }
    anyhow::bail!("the thread does not answer")
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the address of this thread's own `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread.
    let saved = unsafe { *errno };
    // SAFETY: who asks waits; see the head of the file.
    let slot = unsafe { &mut *SLOT.0.get() };
    // SAFETY: what the kernel gave us.
    slot.registers = unsafe { registers(context.cast_const().cast()) };
    slot.bytes = slot.end.saturating_sub(slot.registers.sp);
    let begin = Timestamp::now().raw();
    match slot.method {
        Method::Copy => copy(slot),
        Method::Walk => slot.count = walk_here(slot),
    }
    slot.ticks = Timestamp::now().raw() - begin;
    DONE.fetch_add(1, Ordering::Release);
    let _ = futex::wake(&DONE, futex::Flags::PRIVATE, 1);
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// As the sampler's handler: the system is asked of every page.
fn copy(slot: &mut Slot) {
    let start = slot.registers.sp & !7;
    let words = (slot.end.saturating_sub(start) as usize / 8).min(STACK_WORDS);
    slot.words = readable_bytes(start, words as u64 * 8) as usize / 8;
    // SAFETY: from the interrupted stack pointer to the end of the stack all is in use by the functions below it, and could
    // be read just now.
    unsafe { std::ptr::copy_nonoverlapping(start as *const u64, slot.stack.as_mut_ptr(), slot.words) };
}

/// As `profiler_core`'s, which is not public: a call for each page.
fn readable_bytes(start: u64, len: u64) -> u64 {
    const NO_SUCH_WAY: libc::c_int = -1;
    let (end, nowhere) = (start + len, std::ptr::null_mut::<u64>());
    let mut known = start;
    while known < end {
        let address = (known & !7) as *const u64;
        // SAFETY: the kernel checks the address; there is no such way to change a mask, so none is changed or written.
        let done = unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_WAY, address, nowhere, size_of::<u64>())
        };
        if done == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL) {
            break;
        }
        known = (known | 4095) + 1;
    }
    known.min(end) - start
}

fn walk_here(slot: &mut Slot) -> usize {
    let (start, end) = (slot.registers.sp, slot.end);
    let read = |address: u64| {
        let is_in = start <= address && address <= end - 8 && address.is_multiple_of(8);
        // SAFETY: aligned, and between the interrupted stack pointer and the end of the stack.
        is_in.then(|| unsafe { (address as *const u64).read_volatile() }).ok_or(())
    };
    walk(slot.registers, &mut slot.cache, &mut slot.frames, read)
}

/// Unwinds what a handler has copied; how many frames.
pub(super) fn walk_copy(slot: &mut Slot) -> usize {
    let (start, stack) = (slot.registers.sp & !7, slot.stack.get(..slot.words).unwrap_or_default());
    let read = |address: u64| {
        let offset = address.checked_sub(start).filter(|offset| offset % 8 == 0).ok_or(())?;
        stack.get(offset as usize / 8).copied().ok_or(())
    };
    walk(slot.registers, &mut slot.cache, &mut slot.frames, read)
}

#[inline(always)]
fn walk(
    registers: Registers,
    cache: &mut Option<Cache>,
    frames: &mut [u64; MOST_FRAMES],
    mut read: impl FnMut(u64) -> Result<u64, ()>,
) -> usize {
    let (Some(tables), Some(cache)) = (TABLES.get(), cache) else { return 0 };
    let mut regs = native(registers);
    let mut at = FrameAddress::from_instruction_pointer(registers.pc);
    for (count, place) in frames.iter_mut().enumerate() {
        *place = at.address();
        match tables.unwind_frame(at, &mut regs, cache, &mut read) {
            Ok(Some(outer)) => match FrameAddress::from_return_address(outer) {
                Some(outer) => at = outer,
                None => return count + 1,
            },
            _ => return count + 1,
        }
    }
    MOST_FRAMES
}

/// Those that a signal interrupted.
///
/// # Safety
/// `context` is what the kernel gave a handler that still runs.
#[cfg(target_arch = "x86_64")]
unsafe fn registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller's promise.
    let all = unsafe { &(*context).uc_mcontext.gregs };
    let get = |index: libc::c_int| all[index as usize].cast_unsigned();
    Registers { pc: get(libc::REG_RIP), sp: get(libc::REG_RSP), fp: get(libc::REG_RBP), lr: 0 }
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegsNative {
    debug_assert_eq!(registers.lr, 0, "there is none");
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

/// Those that a signal interrupted.
///
/// # Safety
/// `context` is what the kernel gave a handler that still runs.
#[cfg(target_arch = "aarch64")]
unsafe fn registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller's promise.
    let all = unsafe { &(*context).uc_mcontext };
    Registers { pc: all.pc, sp: all.sp, fp: all.regs[29], lr: all.regs[30] }
}

#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask((1 << 48) - 1);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}
