//! The registers of a thread that has crashed.

#![allow(unsafe_code)]

/// The stack pointer.
///
/// # Safety
/// `context` has the registers that the kernel passed to a handler that still runs.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn stack_pointer(context: *const libc::ucontext_t) -> u64 {
    // SAFETY: the caller's promise.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let index = usize::try_from(libc::REG_RSP).unwrap_or(usize::MAX);
    registers.get(index).map_or(0, |word| word.cast_unsigned())
}

/// The stack pointer.
///
/// # Safety
/// `context` has the registers that the kernel passed to a handler that still runs.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn stack_pointer(context: *const libc::ucontext_t) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { (*context).uc_mcontext.sp }
}

/// Lets the thread go on at a place with this stack pointer when the handler returns.
///
/// # Safety
/// `context` is the one that the kernel passed to a handler that still runs, and the code at
/// `place` expects this stack pointer.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn go_on_at(context: *mut libc::ucontext_t, place: u64, stack_pointer: u64) {
    // SAFETY: the caller's promise.
    let all = unsafe { &mut (*context).uc_mcontext.gregs };
    for (index, value) in [(libc::REG_RIP, place), (libc::REG_RSP, stack_pointer)] {
        let register = usize::try_from(index)
            .ok()
            .and_then(|index| all.get_mut(index));
        if let Some(register) = register {
            *register = value.cast_signed();
        }
    }
}

/// Lets the thread go on at a place with this stack pointer when the handler returns.
///
/// # Safety
/// `context` is the one that the kernel passed to a handler that still runs, and the code at
/// `place` expects this stack pointer.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn go_on_at(context: *mut libc::ucontext_t, place: u64, stack_pointer: u64) {
    // SAFETY: the caller's promise.
    let registers = unsafe { &mut (*context).uc_mcontext };
    (registers.pc, registers.sp) = (place, stack_pointer);
}

/// The number of registers in [`all_registers`].
#[cfg(target_arch = "x86_64")]
pub(super) const ALL_REGISTERS: usize = 18;
/// The number of registers in [`all_registers`].
#[cfg(target_arch = "aarch64")]
pub(super) const ALL_REGISTERS: usize = 33;

/// The names and values of the registers of the thread that a signal interrupted.
///
/// # Safety
/// `context` has the registers that the kernel passed to a handler that still runs.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn all_registers(
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
/// `context` has the registers that the kernel passed to a handler that still runs.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn all_registers(
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
