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
