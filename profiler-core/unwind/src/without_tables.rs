//! Unwinds functions that no unwinding table describes: assembly, and code that was generated at
//! run time.
//!
//! Called by `walk`. Such a function is unwound with its frame pointer, if that points to a frame
//! record on the stack, whose return address is behind a call:
//!
//! ```text
//! frame pointer ─▶ caller's frame pointer
//!                  return address
//! ```
//!
//! The innermost function may have no frame record: it has not made one yet, or never does. Its
//! return address is then at the stack pointer (x86-64) or in the link register (aarch64), while
//! the frame pointer is still that of a caller. The call before a return address tells which is
//! right: it calls a function near the innermost instruction ([`Fit`]).
//!
//! A null frame pointer ends the chain of frame records. If the register was null when the thread
//! was interrupted, or the innermost function has just pushed it, it may also be a value of assembly
//! that uses the register for another purpose. The stack is whole then only if it ends where a
//! program starts ([`is_program_start`]).
//!
//! Invariants: any registers, words and code are accepted. If nothing fits, unwinding fails, and
//! the stack is marked as cut; no frame is made up.

use std::cell::Cell;

use framehop::{Error, FrameAddress, UnwindRegsNative};

use crate::calls::CodeReader;
use crate::program_start::is_program_start;
use crate::registers::{
    frame_pointer, link_register, set_frame_pointer, set_return_address, set_stack_pointer,
    stack_pointer,
};
use crate::return_address::{Call, Standing};

/// The maximum distance of an instruction from the start of its function.
const MAX_FUNCTION: u64 = 1 << 16;
/// Below, no program has code.
const LOWEST_CODE: u64 = 0x1_0000;

/// A function without tables, and what is known of the process.
pub(crate) struct Uncovered<'a> {
    pub(crate) at: FrameAddress,
    /// Whether the function is in a file.
    pub(crate) is_in_module: bool,
    /// Whether the innermost function had a frame pointer that was not null.
    pub(crate) has_link: &'a Cell<bool>,
    /// Reads a word of the stack.
    pub(crate) read: &'a dyn Fn(u64) -> Result<u64, ()>,
    /// The code of the process, if it may be read.
    pub(crate) code: Option<&'a CodeReader<'a>>,
    /// What is known of an address as a return address.
    pub(crate) standing: &'a dyn Fn(u64) -> Standing,
    /// Whether an address is in the code of a file.
    pub(crate) is_code: &'a dyn Fn(u64) -> bool,
    /// Whether the tables describe a function at an address.
    pub(crate) is_covered: &'a dyn Fn(u64) -> bool,
}

/// How the call before a return address fits the function that would return there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// It calls a function near the instruction that the tables do not describe.
    Proven,
    /// It calls a function whose address is not known here.
    Unknown,
    /// It calls another function.
    Other,
}

/// A frame record.
#[derive(Clone, Copy, Debug)]
struct Record {
    frame_pointer: u64,
    return_address: u64,
    /// The stack pointer of the caller.
    sp: u64,
}

impl Record {
    fn apply(self, regs: &mut UnwindRegsNative) -> u64 {
        set_stack_pointer(regs, self.sp);
        set_frame_pointer(regs, self.frame_pointer);
        set_return_address(regs, self.return_address)
    }
}

impl Uncovered<'_> {
    /// Unwinds the function. Returns the return address; `None` at the end of the stack.
    ///
    /// # Errors
    /// If there is no frame that fits, or the stack cannot be read.
    #[inline(never)] // most stacks do not need this stack space
    pub(crate) fn step(&self, regs: &mut UnwindRegsNative) -> Result<Option<u64>, Error> {
        if self.at.is_return_address() || !self.is_in_module {
            return self.by_frame_pointer(regs);
        }
        let fitting = self.at_edge(regs).or_else(|| self.innermost(regs));
        match fitting {
            Some(record) => Ok(Some(record.apply(regs))),
            None => self.by_frame_pointer(regs),
        }
    }

    fn by_frame_pointer(&self, regs: &mut UnwindRegsNative) -> Result<Option<u64>, Error> {
        let is_caller = self.at.is_return_address();
        if frame_pointer(regs) == 0 && is_caller {
            // The outermost function begins with this value.
            let sp = stack_pointer(regs);
            let is_outermost = self.has_link.get() || is_program_start(sp, self.read);
            return if is_outermost {
                Ok(None)
            } else {
                Err(Error::FramepointerUnwindingMovedBackwards)
            };
        }
        let record = self.record(regs)?;
        // In generated code, a return address of zero ends the stack. In a file, assembly uses the
        // frame pointer for another purpose, and it points to zeros.
        if record.return_address == 0 && is_caller && !self.is_in_module {
            return Ok(None);
        }
        let is_outermost = record.frame_pointer == 0 && (self.is_code)(record.return_address);
        let is_accepted = match (self.standing)(record.return_address) {
            Standing::BehindCall | Standing::SignalReturn => true,
            // The function that ends a thread or a coroutine is often called by nothing.
            Standing::Elsewhere => is_outermost,
            Standing::Unknown => record.return_address >= LOWEST_CODE,
        };
        if is_accepted {
            Ok(Some(record.apply(regs)))
        } else {
            Err(Error::DidNotAdvance)
        }
    }

    /// The record to which the frame pointer points.
    fn record(&self, regs: &UnwindRegsNative) -> Result<Record, Error> {
        let pointer = frame_pointer(regs);
        if pointer < stack_pointer(regs) || !pointer.is_multiple_of(8) {
            return Err(Error::FramepointerUnwindingMovedBackwards);
        }
        let sp = pointer.checked_add(16).ok_or(Error::IntegerOverflow)?;
        Ok(Record {
            frame_pointer: self.word(pointer)?,
            return_address: self.word(sp - 8)?,
            sp,
        })
    }

    fn word(&self, address: u64) -> Result<u64, Error> {
        (self.read)(address).map_err(|()| Error::CouldNotReadStack(address))
    }

    /// The frame of the innermost function, if a call fits.
    fn innermost(&self, regs: &UnwindRegsNative) -> Option<Record> {
        let record = self.record(regs).ok();
        let by_record = record.and_then(|record| self.fit(record.return_address));
        let leaf = self.leaf(regs);
        let by_leaf = leaf.and_then(|leaf| self.fit(leaf.return_address));
        match (by_record, by_leaf) {
            (Some(Fit::Proven), _) => record,
            (_, Some(Fit::Proven)) => leaf,
            (Some(Fit::Unknown), _) => record,
            (_, Some(Fit::Unknown)) => leaf,
            (Some(Fit::Other), _) => record,
            (None, Some(Fit::Other) | None) => None,
        }
    }

    /// The frame of a function that has pushed nothing.
    fn leaf(&self, regs: &UnwindRegsNative) -> Option<Record> {
        let sp = stack_pointer(regs);
        let frame_pointer = frame_pointer(regs);
        if let Some(return_address) = link_register(regs) {
            return Some(Record {
                frame_pointer,
                return_address,
                sp,
            });
        }
        Some(Record {
            frame_pointer,
            return_address: (self.read)(sp).ok()?,
            sp: sp.checked_add(8)?,
        })
    }

    fn fit(&self, return_address: u64) -> Option<Fit> {
        if (self.standing)(return_address) != Standing::BehindCall {
            return None;
        }
        let pc = self.at.address();
        let is_near = |function: u64| {
            let distance = pc.checked_sub(function);
            distance.is_some_and(|distance| distance < MAX_FUNCTION) && !(self.is_covered)(function)
        };
        let code = self.code?;
        Some(match code.called(return_address)? {
            Call::To(function) if is_near(function) => Fit::Proven,
            Call::To(function) if code.has_jump(function, &is_near) => Fit::Proven,
            Call::To(_) => Fit::Other,
            Call::Through(_) | Call::Unknown => Fit::Unknown,
        })
    }

    /// The frame of a function whose instruction shows that its record is not complete: the first
    /// two, or the last two.
    fn at_edge(&self, regs: &UnwindRegsNative) -> Option<Record> {
        let leaf = self.leaf(regs).filter(|_| cfg!(target_arch = "x86_64"))?;
        let mut room = [0; 6];
        let code = self.code?;
        let (before, next) = code
            .read(self.at.address().checked_sub(1)?, &mut room)
            .split_first()?;
        let is_move = |next: &[u8]| {
            next.starts_with(&[0x48, 0x89, 0xe5]) || next.starts_with(&[0x48, 0x8b, 0xec])
        };
        let has_pushed = *before == 0x55 && is_move(next) || next.starts_with(&[0x5d, 0xc3]);
        let is_plain = match next {
            [0x55 | 0xc3 | 0xc2, ..] | [0xf2 | 0xf3, 0xc3, ..] => true,
            _ => next.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), // endbr64; push rbp
        };
        let record = if has_pushed {
            self.has_link.set(leaf.return_address != 0);
            Record {
                frame_pointer: leaf.return_address,
                return_address: (self.read)(leaf.sp).ok()?,
                sp: leaf.sp.checked_add(8)?,
            }
        } else if is_plain {
            leaf
        } else {
            return None;
        };
        ((self.standing)(record.return_address) == Standing::BehindCall).then_some(record)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
