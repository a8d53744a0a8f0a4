//! The handler of the timers' signal: copies the registers and the stack of the thread that it
//! interrupts into the ring.
//!
//! The kernel calls it in a thread that runs. It calls the system only to read clocks and to check
//! pages of the stack; it takes no lock, allocates nothing, and uses no thread-local. All signals
//! but faults are blocked while it runs, also the C library's own, so nothing unwinds through it.

use core::arch::global_asm;
use core::ptr;
use core::sync::atomic::Ordering;

use crate::layout::{
    CRASH_PAGES, FIRST_RING_PAGES, FIRST_ROWS, HEAD_BYTES, IS_CRASH, IS_CUT, IS_ELSEWHERE,
    MAX_STACK_BYTES, PAGE, RING_AT, SAMPLE_PAGES, SampleHead, row_at,
};
use crate::own_action::{self, KernelAction, SA_ONSTACK, SA_RESTART, SA_SIGINFO};
use crate::process::{self, FilterState};
use crate::raw::{Clock, is_readable};
use crate::ring::{self, Claimed};
use crate::signal_set::bit;
use crate::threads::{self, OwnRow, TIMER_MARK};

const SI_TIMER: i32 = -2;
#[cfg(target_arch = "x86_64")]
const SA_RESTORER: u64 = 0x0400_0000;
/// The signals that are not blocked: faults, which the program must still be able to report, and
/// SIGSYS, by which a sandbox answers system calls.
const FAULTS: u64 = bit(4) | bit(5) | bit(6) | bit(7) | bit(8) | bit(11) | bit(31);

/// `struct siginfo` of the kernel for a signal of a timer.
#[repr(C)]
struct TimerSignal {
    signal: i32,
    error: i32,
    code: i32,
    timer: [i32; 3],
    value: u64,
}

/// The beginning of `struct ucontext` of the kernel.
#[cfg(target_arch = "x86_64")]
#[repr(C)]
pub(crate) struct Context {
    flags: u64,
    link: u64,
    alternate_stack: [u64; 3],
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    registers: [u64; 17],
    /// Flags, segments, errors, the address of the floating-point registers.
    others: [u64; 15],
    mask: [u64; 1],
}

/// The beginning of `struct ucontext` of the kernel.
#[cfg(target_arch = "aarch64")]
#[repr(C)]
pub(crate) struct Context {
    flags: u64,
    link: u64,
    alternate_stack: [u64; 3],
    mask: [u64; 17],
    fault_address: u64,
    /// x0 to x30, sp, pc.
    registers: [u64; 33],
}

/// The registers from which unwinding begins.
struct Registers {
    pc: u64,
    sp: u64,
    fp: u64,
    lr: u64,
}

impl Context {
    #[cfg(target_arch = "x86_64")]
    fn registers(&self) -> Registers {
        let [.., fp, _, _, _, _, sp, pc] = self.registers;
        Registers { pc, sp, fp, lr: 0 }
    }

    #[cfg(target_arch = "aarch64")]
    fn registers(&self) -> Registers {
        let [.., fp, lr, sp, pc] = self.registers;
        Registers { pc, sp, fp, lr }
    }

    /// The signals that the interrupted code holds back.
    fn mask(&self) -> u64 {
        let [first, ..] = self.mask;
        first
    }

    /// Whether an address is in the alternate signal stack.
    fn is_in_alternate_stack(&self, address: u64) -> bool {
        let [start, _, bytes] = self.alternate_stack;
        address.wrapping_sub(start) < bytes
    }
}

const _: () = {
    use core::mem::offset_of;
    let (registers, mask) = if cfg!(target_arch = "x86_64") {
        (40, 296)
    } else {
        (184, 40)
    };
    assert!(offset_of!(Context, registers) == registers && offset_of!(Context, mask) == mask);
    assert!(offset_of!(TimerSignal, value) == 24);
};

// The end of a handler. Debuggers and unwinders know these bytes.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl profiler_observed_return",
    ".hidden profiler_observed_return",
    "profiler_observed_return:",
    "mov $15, %rax",
    "syscall",
    options(att_syntax)
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    fn profiler_observed_return();
}

/// An action with this handler, a static function with the three arguments that SA_SIGINFO
/// promises.
pub(crate) fn action_with(handler: usize) -> KernelAction {
    KernelAction {
        handler,
        #[cfg(target_arch = "x86_64")]
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_RESTORER,
        #[cfg(target_arch = "aarch64")]
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTART,
        #[cfg(target_arch = "x86_64")]
        restorer: profiler_observed_return as *const () as usize,
        #[cfg(target_arch = "aarch64")]
        restorer: 0,
        mask: !FAULTS,
    }
}

/// Installs the handler. False if the system refuses it.
pub(crate) fn install() -> bool {
    own_action::install(action_with(on_signal as *const () as usize))
}

unsafe extern "C" fn on_signal(signal: i32, info: *const TimerSignal, context: *const Context) {
    // SAFETY: the kernel passes a valid description, because of SA_SIGINFO.
    let (Some(info), Some(context)) = (unsafe { info.as_ref() }, unsafe { context.as_ref() })
    else {
        return;
    };
    // Only timers have a value that the sender chose. A program's own signal has no mark.
    if info.code != SI_TIMER || info.value >> 32 != TIMER_MARK {
        return own_action::receive(
            signal,
            info_address(info),
            context_address(context),
            context.mask(),
        );
    }
    // A filter may forbid the calls below; a thread without a timer may still get a last signal. So
    // may one whose timer was deleted when a recorder took over.
    if process::filter() == FilterState::Nothing || !process::is_recorded() {
        return;
    }
    take_sample((info.value & 0xffff_ffff) as usize, context);
}

fn info_address(info: &TimerSignal) -> usize {
    ptr::from_ref(info).expose_provenance()
}

fn context_address(context: &Context) -> usize {
    ptr::from_ref(context).expose_provenance()
}

/// What is known of a sample besides its registers and its stack.
pub(crate) struct Sampled {
    /// When the handler began.
    pub(crate) began: u64,
    /// The thread's row; `None` if it has none.
    pub(crate) own: Option<&'static OwnRow>,
    /// The numbers of the thread, its processor time, and the first flags.
    pub(crate) head: SampleHead,
}

/// The result of writing a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is published.
    Yes,
    /// There is no free page.
    NoPage,
    /// The file has been cut off.
    NoFile,
}

/// Writes a sample of the calling thread.
fn take_sample(row: usize, context: &Context) {
    let began = process::now();
    let is_first = row < FIRST_ROWS;
    if !process::is_intact() || !(is_first || row_at(row).is_some_and(process::has_memory)) {
        return;
    }
    let (Some(own), Some(shared)) = (threads::own_row(row), process::row(row)) else {
        return;
    };
    let cpu_ns = Clock::THREAD.now_ns();
    let head = SampleHead {
        cpu_ns,
        row: row as u32,
        uses: shared.uses.load(Ordering::Relaxed),
        tid: shared.tid.load(Ordering::Relaxed),
        ..SampleHead::default()
    };
    let own = Some(own);
    match write_stack(context, &Sampled { began, own, head }) {
        Written::Yes => shared.sampled_cpu_ns.store(cpu_ns, Ordering::Release),
        Written::NoPage => {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            if let Some(header) = process::header() {
                header.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        Written::NoFile => {}
    }
}

/// Copies the registers and the stack of the calling thread into the ring.
pub(crate) fn write_stack(context: &Context, sampled: &Sampled) -> Written {
    let registers = context.registers();
    let start = registers.sp & !7;
    let (top, most) = sampled.own.map_or((0, 0), OwnRow::stack_bounds);
    let is_own = start < top && top - start <= most;
    let is_elsewhere = !is_own || context.is_in_alternate_stack(start);
    let (wanted, is_longer) = stack_bytes(start, top, is_elsewhere);
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let head = SampleHead {
        at: sampled.began,
        pc: registers.pc,
        sp: registers.sp,
        fp: registers.fp,
        lr: registers.lr,
        flags: sampled.head.flags | flag(is_longer, IS_CUT) | flag(is_elsewhere, IS_ELSEWHERE),
        ..sampled.head
    };
    // SAFETY: all words up to `wanted` are readable.
    unsafe { publish_sample(&head, (start, wanted), sampled.began) }
}

/// Writes bytes in place of a stack. Their number must be a multiple of 8.
pub(crate) fn write_bytes(head: &SampleHead, bytes: &[u8]) -> Written {
    let start = bytes.as_ptr().expose_provenance() as u64;
    // SAFETY: the bytes are readable.
    unsafe { publish_sample(head, (start, bytes.len()), head.at) }
}

/// Claims pages, fills them and publishes them. The handler began at `began`.
///
/// # Safety
/// The `wanted` bytes from `start` on are readable.
unsafe fn publish_sample(head: &SampleHead, (start, wanted): (u64, usize), began: u64) -> Written {
    let Some(control) = process::control() else {
        return Written::NoFile;
    };
    let is_crash = head.flags & IS_CRASH != 0;
    let has_reserve = process::configuration().records_crashes && !is_crash;
    let first = if has_reserve { CRASH_PAGES } else { 0 };
    let claimed = ring::claim(control, (HEAD_BYTES + wanted).div_ceil(PAGE), first);
    if claimed.len == 0 {
        return Written::NoPage;
    }
    let mut later = claimed
        .pages()
        .filter(|page| usize::from(*page) >= FIRST_RING_PAGES);
    if !later.all(|page| process::has_memory(RING_AT + usize::from(page) * PAGE)) {
        return Written::NoFile;
    }
    let bytes = wanted.min(claimed.len * PAGE - HEAD_BYTES);
    let [first, more @ ..] = claimed.pages;
    let head = SampleHead {
        stack_bytes: bytes as u32,
        flags: head.flags | if bytes < wanted { IS_CUT } else { 0 },
        more_pages: claimed.len as u32 - 1,
        pages: more,
        claims: claimed.claims,
        ..*head
    };
    copy(&claimed, first, start, bytes, head, began);
    ring::publish(control, &claimed);
    Written::Yes
}

/// The bytes of the stack that can be copied, and whether the stack is longer.
fn stack_bytes(start: u64, top: u64, is_elsewhere: bool) -> (usize, bool) {
    // Of another stack, such as a coroutine's, only the page is known in which it ends.
    let known = if is_elsewhere {
        PAGE as u64 - start % PAGE as u64
    } else {
        top - start
    };
    let most = known.min(MAX_STACK_BYTES as u64);
    let end = start + most;
    let mut readable = start;
    // Code may use the stack pointer for other data, and an empty stack ends at its upper border.
    if !is_readable(start) {
        return (0, true);
    }
    // A guard page may lie between another stack and this thread's own.
    loop {
        readable = (readable | (PAGE as u64 - 1)) + 1;
        if readable >= end || !is_readable(readable) {
            break;
        }
    }
    let bytes = readable.min(end) - start;
    (bytes as usize & !7, is_elsewhere || bytes < known)
}

/// Copies the head and the stack into the claimed pages.
fn copy(claimed: &Claimed, first: u16, start: u64, bytes: usize, head: SampleHead, began: u64) {
    let Some(ring) = process::ring() else {
        return;
    };
    let mut from = ptr::with_exposed_provenance::<u64>(start as usize);
    let mut left = bytes / 8;
    for (number, page) in claimed.pages().enumerate().take(SAMPLE_PAGES) {
        let page = ring.wrapping_add(usize::from(page) * PAGE);
        let offset = if number == 0 { HEAD_BYTES } else { 0 };
        let mut to = page.wrapping_add(offset).cast::<u64>();
        let words = ((PAGE - offset) / 8).min(left);
        for _ in 0..words {
            // SAFETY: all words up to `bytes` are readable. Volatile, so that it does not become a
            // call of the C library.
            let word = unsafe { from.read_volatile() };
            // SAFETY: the word is inside a page that this handler has claimed: `claim` returns only
            // pages of the mapping.
            unsafe { to.write_volatile(word) };
            (from, to) = (from.wrapping_add(1), to.wrapping_add(1));
        }
        left -= words;
    }
    let place = ring
        .wrapping_add(usize::from(first) * PAGE)
        .cast::<SampleHead>();
    let held = process::now().wrapping_sub(began).min(u64::from(u32::MAX)) as u32;
    // SAFETY: the page is claimed by this handler, is aligned, and has room for a head.
    unsafe { place.write_volatile(SampleHead { held, ..head }) };
}
