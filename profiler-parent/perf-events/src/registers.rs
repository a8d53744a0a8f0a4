//! The registers of a sample. The unwinding of a stack begins with them.
//!
//! Used by `event`, which asks the system for them, and by `record`, which finds them in a sample.
//! Invariant: the system writes the registers in the order of their numbers.

/// The registers of the program at a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserRegisters {
    /// The next instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The link register; 0 on x86-64.
    pub lr: u64,
}

/// The number of registers in a sample.
#[cfg(target_arch = "x86_64")]
pub(crate) const COUNT: usize = 3;
/// The system's numbers of the frame pointer, the stack pointer and the next instruction.
#[cfg(target_arch = "x86_64")]
pub(crate) const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// The number of registers in a sample.
#[cfg(target_arch = "aarch64")]
pub(crate) const COUNT: usize = 4;
/// The system's numbers of the frame pointer, the link register, the stack pointer and the next
/// instruction.
#[cfg(target_arch = "aarch64")]
pub(crate) const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

const _: () = assert!(MASK.count_ones() as usize == COUNT);

/// The registers in the order in which the system writes them.
#[cfg(target_arch = "x86_64")]
pub(crate) const fn from_words([fp, sp, pc]: [u64; COUNT]) -> UserRegisters {
    UserRegisters { pc, sp, fp, lr: 0 }
}

/// The registers in the order in which the system writes them.
#[cfg(target_arch = "aarch64")]
pub(crate) const fn from_words([fp, lr, sp, pc]: [u64; COUNT]) -> UserRegisters {
    UserRegisters { pc, sp, fp, lr }
}
