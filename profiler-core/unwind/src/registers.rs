//! The registers with which unwinding begins, and those of the unwinder on each architecture, by
//! one set of names.
//!
//! Used by `walk` and `without_tables`.

use framehop::UnwindRegsNative;

/// The registers with which unwinding begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The value of the frame pointer's register, which a function may use for other data.
    pub fp: u64,
    /// The link register; 0 where there is none.
    pub lr: u64,
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn stack_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.sp()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn set_stack_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_sp(pointer);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.bp()
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn set_frame_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_bp(pointer);
}

/// Removes the signature from return addresses: user addresses have 48 bits, or 52.
#[cfg(target_arch = "aarch64")]
pub(crate) fn native(registers: Registers) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask((1 << 48) - 1);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}

/// The address to which a function returns that has not saved it: on x86-64, none is known.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn link_register(_: &UnwindRegsNative) -> Option<u64> {
    None
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn link_register(regs: &UnwindRegsNative) -> Option<u64> {
    Some(regs.lr())
}

#[cfg(target_arch = "x86_64")]
pub(crate) const fn set_return_address(_: &mut UnwindRegsNative, address: u64) -> u64 {
    address
}

/// Returns the address without its signature.
#[cfg(target_arch = "aarch64")]
pub(crate) fn set_return_address(regs: &mut UnwindRegsNative, address: u64) -> u64 {
    regs.set_lr(address);
    regs.lr()
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn stack_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.sp()
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn set_stack_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_sp(pointer);
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.fp()
}

#[cfg(target_arch = "aarch64")]
pub(crate) fn set_frame_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_fp(pointer);
}
