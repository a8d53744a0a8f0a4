//! The registers that unwinding begins with, on both architectures.
//!
//! Read in the signal handler from the context that the kernel saved, and by a thread that records
//! its own stack.

use std::arch::asm;

use profiler_unwind::Registers;

/// The registers of the thread that a signal interrupted.
///
/// # Safety
/// `context` is the one that the kernel passed to a `SA_SIGINFO` handler that still runs.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn interrupted_registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller's promise; the kernel filled it in.
    let all = unsafe { &(*context).uc_mcontext.gregs };
    let get = |index: libc::c_int| {
        usize::try_from(index)
            .ok()
            .and_then(|index| all.get(index))
            .map_or(0, |word| word.cast_unsigned())
    };
    Registers {
        pc: get(libc::REG_RIP),
        sp: get(libc::REG_RSP),
        fp: get(libc::REG_RBP),
        lr: 0,
    }
}

/// The registers of the thread that a signal interrupted.
///
/// # Safety
/// `context` is the one that the kernel passed to a `SA_SIGINFO` handler that still runs.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn interrupted_registers(context: *const libc::ucontext_t) -> Registers {
    // SAFETY: the caller's promise; the kernel filled it in.
    let all = unsafe { &(*context).uc_mcontext };
    let get = |index: usize| all.regs.get(index).copied().unwrap_or(0);
    Registers {
        pc: all.pc,
        sp: all.sp,
        fp: get(29),
        lr: get(30),
    }
}

/// The number of registers in [`all_registers`].
#[cfg(target_arch = "x86_64")]
pub(crate) const ALL_REGISTERS: usize = 18;
/// The number of registers in [`all_registers`].
#[cfg(target_arch = "aarch64")]
pub(crate) const ALL_REGISTERS: usize = 33;

/// The names and values of the registers of the thread that a signal interrupted.
///
/// # Safety
/// As for [`interrupted_registers`].
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn all_registers(
    context: *const libc::ucontext_t,
) -> [(&'static str, u64); ALL_REGISTERS] {
    const NAMES: [(&str, libc::c_int); ALL_REGISTERS] = [
        ("rip", libc::REG_RIP),
        ("rsp", libc::REG_RSP),
        ("rbp", libc::REG_RBP),
        ("rax", libc::REG_RAX),
        ("rbx", libc::REG_RBX),
        ("rcx", libc::REG_RCX),
        ("rdx", libc::REG_RDX),
        ("rsi", libc::REG_RSI),
        ("rdi", libc::REG_RDI),
        ("r8", libc::REG_R8),
        ("r9", libc::REG_R9),
        ("r10", libc::REG_R10),
        ("r11", libc::REG_R11),
        ("r12", libc::REG_R12),
        ("r13", libc::REG_R13),
        ("r14", libc::REG_R14),
        ("r15", libc::REG_R15),
        ("eflags", libc::REG_EFL),
    ];
    // SAFETY: the caller's promise; the kernel filled it in.
    let all = unsafe { &(*context).uc_mcontext.gregs };
    NAMES.map(|(name, index)| {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        (name, all.get(index).map_or(0, |word| word.cast_unsigned()))
    })
}

/// The names and values of the registers of the thread that a signal interrupted.
///
/// # Safety
/// As for [`interrupted_registers`].
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn all_registers(
    context: *const libc::ucontext_t,
) -> [(&'static str, u64); ALL_REGISTERS] {
    const NAMES: [&str; ALL_REGISTERS] = [
        "pc", "sp", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
        "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24",
        "x25", "x26", "x27", "x28", "x29", "x30",
    ];
    // SAFETY: the caller's promise; the kernel filled it in.
    let all = unsafe { &(*context).uc_mcontext };
    let mut values = [all.pc, all.sp].into_iter().chain(all.regs);
    NAMES.map(|name| (name, values.next().unwrap_or(0)))
}

/// The registers of the calling thread, in the function that this is inlined into.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn own_registers() -> Registers {
    let (pc, sp, fp): (u64, u64, u64);
    // SAFETY: copies three registers into others; touches neither memory nor flags.
    unsafe {
        asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) pc, out(reg) sp, out(reg) fp,
            options(nomem, nostack, preserves_flags));
    }
    Registers { pc, sp, fp, lr: 0 }
}

/// The registers of the calling thread, in the function that this is inlined into.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn own_registers() -> Registers {
    let (pc, sp, fp, lr): (u64, u64, u64, u64);
    // SAFETY: copies four registers into others; touches neither memory nor flags.
    unsafe {
        asm!("adr {0}, .", "mov {1}, sp", "mov {2}, x29", "mov {3}, x30", out(reg) pc, out(reg) sp,
            out(reg) fp, out(reg) lr, options(nomem, nostack, preserves_flags));
    }
    Registers { pc, sp, fp, lr }
}

/// Whether an address lies in the alternate signal stack of the thread that a signal interrupted.
///
/// # Safety
/// `context` is the one that the kernel passed to a `SA_SIGINFO` handler that still runs.
pub(crate) unsafe fn is_in_alternate_stack(context: *const libc::ucontext_t, address: u64) -> bool {
    // SAFETY: the caller's promise.
    unsafe { left_of_alternate_stack(context, address) }.is_some()
}

/// The number of bytes of the thread's alternate signal stack below an address; `None` if the
/// address is not in it.
///
/// # Safety
/// As for [`is_in_alternate_stack`].
pub(crate) unsafe fn left_of_alternate_stack(
    context: *const libc::ucontext_t,
    address: u64,
) -> Option<u64> {
    // SAFETY: the caller's promise; the kernel filled it in. Without an alternate stack the size is
    // 0.
    let stack = unsafe { &(*context).uc_stack };
    address
        .checked_sub(stack.ss_sp as u64)
        .filter(|offset| *offset < stack.ss_size as u64)
}

/// Address of the calling thread's control block: in glibc and musl at the upper end of its stack,
/// except for the main thread. Two threads that live at the same time have different ones.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: by the ABI the first word at `fs` is its own address, in every thread.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Address of the calling thread's control block: in glibc and musl at the upper end of its stack,
/// except for the main thread. Two threads that live at the same time have different ones.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register that user code may read.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}

/// The range of the calling thread's stack, from its lowest to after its highest address, as
/// reported by the C library. Not for the main thread, for which the C library reads the system's
/// list of all mappings. May allocate through the C library.
pub(crate) fn own_stack() -> Option<(u64, u64)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: has no arguments and cannot fail.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: asks for the calling thread, into memory that lives through the call.
    let failed = unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) };
    if failed != 0 {
        return None;
    }
    let mut lowest = std::ptr::null_mut();
    let mut len = 0;
    // SAFETY: the call before has initialised the attributes.
    let failed =
        unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut len) };
    // SAFETY: initialised, and not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let lowest = lowest as u64;
    (failed == 0).then_some((lowest, lowest.saturating_add(len as u64)))
}
