//! Finds which function a call before a return address calls.
//!
//! Used by `frame_pointer`, for x86-64. The address of a called function is a constant of the call,
//! or is in a table of addresses, or is in a register. The function may be an entry of the
//! procedure linkage table, or may end with a jump to another function, as a tail call does.
//!
//! Invariants: any bytes of code are accepted. Only addresses in modules are read, so that reading
//! has no effect on devices and waits for no file system but those of loaded files. All reads of
//! one stack together are limited.

use std::cell::Cell;

use crate::return_address::{BEFORE, Call, call, relative};

/// The maximum number of reads for one stack. Each takes about a microsecond.
const MAX_READS: u32 = 256;
/// The bytes of a called function that are searched for a jump.
const JUMP_BYTES: usize = 2048;

/// Reads the code of the process.
pub trait CodeBytes {
    /// Reads bytes that begin at `address` into `room`, and returns the number of readable bytes.
    fn read(&self, address: u64, room: &mut [u8]) -> usize;

    /// Whether an address that cannot be read is not mapped. False for code of a process that has
    /// ended.
    fn is_complete(&self) -> bool {
        true
    }
}

/// The addresses of the functions of the process.
pub trait FunctionMap {
    /// Whether an address is in a module.
    fn is_code(&self, address: u64) -> bool;
    /// The start of the function that contains an address.
    fn function_start(&self, address: u64) -> Option<u64>;
}

/// Reads code for one stack.
pub struct CodeReader<'a> {
    code: &'a dyn CodeBytes,
    map: &'a dyn FunctionMap,
    /// The number of reads that are left.
    left: Cell<u32>,
}

impl std::fmt::Debug for CodeReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallTarget {
    /// The function in question, or one that jumps to it.
    Function,
    /// Another function.
    Other,
    /// The target is in a register.
    Unknown,
}

impl<'a> CodeReader<'a> {
    /// Makes a reader for one stack.
    #[must_use]
    pub fn new(code: &'a dyn CodeBytes, map: &'a dyn FunctionMap) -> Self {
        Self {
            code,
            map,
            left: Cell::new(MAX_READS),
        }
    }

    /// Reads bytes that begin at `address`, and returns them. They may be fewer than `room` holds.
    pub(crate) fn read<'r>(&self, address: u64, room: &'r mut [u8]) -> &'r [u8] {
        let left = self.left.get();
        if left == 0 || !self.map.is_code(address) {
            return &[];
        }
        self.left.set(left - 1);
        let len = self.code.read(address, room);
        room.get(..len).unwrap_or_default()
    }

    /// Like [`Self::read`], at an address that may be in no module.
    pub(crate) fn read_anywhere(&self, address: u64, room: &mut [u8]) -> usize {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 0 {
            return 0;
        }
        self.code.read(address, room)
    }

    /// Whether all reads that find nothing mean that there is nothing.
    pub(crate) fn is_complete(&self) -> bool {
        self.left.get() > 0 && self.code.is_complete()
    }

    /// The call before a return address. The called address is in a module.
    fn call_at(&self, return_address: u64) -> Option<Call> {
        let mut room = [0; BEFORE];
        let first = return_address.checked_sub(BEFORE as u64)?;
        let before = *self.read(first, &mut room).first_chunk::<BEFORE>()?;
        call(before, return_address, |target| self.map.is_code(target))
    }

    /// The function that the call before a return address calls, also through the procedure linkage
    /// table.
    pub(crate) fn called(&self, return_address: u64) -> Option<Call> {
        Some(match self.call_at(return_address)? {
            Call::To(target) => Call::To(self.jump_target(target).unwrap_or(target)),
            Call::Through(place) => self.word_at(place).map_or(Call::Unknown, Call::To),
            Call::Unknown => Call::Unknown,
        })
    }

    /// The target of the call before a return address, compared with the function at `start`.
    /// `None` if the instruction before the address is not a call.
    pub(crate) fn call_before(&self, return_address: u64, start: u64) -> Option<CallTarget> {
        Some(match self.call_at(return_address)? {
            Call::To(target) => self.compare(target, start),
            Call::Through(place) => {
                let target = self.word_at(place);
                target.map_or(CallTarget::Unknown, |target| self.compare(target, start))
            }
            Call::Unknown => CallTarget::Unknown,
        })
    }

    fn compare(&self, target: u64, start: u64) -> CallTarget {
        let is_function = target == start
            || self.jump_target(target) == Some(start)
            || self.has_tail_call(target, start);
        if is_function {
            CallTarget::Function
        } else {
            CallTarget::Other
        }
    }

    /// Whether the function at `called` contains a jump to the function at `start`.
    fn has_tail_call(&self, called: u64, start: u64) -> bool {
        self.has_jump(called, &|target| target == start)
    }

    /// Whether the function at `called` contains a jump to such an address.
    pub(crate) fn has_jump(&self, called: u64, is_wanted: &dyn Fn(u64) -> bool) -> bool {
        let mut room = [0; JUMP_BYTES];
        let code = self.read(called, &mut room);
        code.windows(5).zip(called..).any(|(window, address)| {
            let &[0xe9, a, b, c, d] = window else {
                return false;
            };
            is_wanted(relative(address + 5, [a, b, c, d]))
                && self.map.function_start(address) == Some(called)
        })
    }

    /// The target of the jump at an address, for example in the procedure linkage table.
    fn jump_target(&self, address: u64) -> Option<u64> {
        let mut room = [0; 11];
        let mut code = self.read(address, &mut room);
        let mut at = address;
        for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]] {
            if let Some(rest) = code.strip_prefix(prefix) {
                code = rest;
                at += prefix.len() as u64;
            }
        }
        let distance = code.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
        self.word_at(relative(at + 6, *distance))
    }

    fn word_at(&self, address: u64) -> Option<u64> {
        let mut room = [0; 8];
        let word = self.read(address, &mut room).first_chunk()?;
        Some(u64::from_ne_bytes(*word))
    }
}
