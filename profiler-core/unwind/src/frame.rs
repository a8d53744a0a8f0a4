//! A frame of an unwound stack.
//!
//! Made by `walk`; a caller turns it into a frame of its own form.

/// A number that the caller gives to a file with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleNumber(pub u32);

/// A frame of an unwound stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwoundFrame {
    /// The file, if it has a number.
    pub module: Option<ModuleNumber>,
    /// The next instruction of the innermost frame, the return address of all others: an address of
    /// the file if the file has a number, otherwise of the process.
    pub address: u64,
    /// The stack pointer of the function at this instruction.
    pub sp: u64,
}
