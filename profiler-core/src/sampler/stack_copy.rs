//! The copy of a thread's registers, stack and labels that its signal handler makes.
//!
//! Used by `sample_handler`. [`StackCopy::fill`] copies the bytes from the stack pointer to the
//! upper end of the thread's own stack. Nothing is copied if the stack pointer is outside that
//! stack or in an alternate stack, or if the bounds were found for another thread.
//!
//! The bounds do not prove that every page is readable: a coroutine's stack may lie in the same
//! mapping, with a guard page in between that the list of mappings does not show. So the handler
//! asks the system about every page before it reads it, and stops at the first unreadable one.
//!
//! While the bounds are unknown, the thread's control block gives the end of its stack: the C
//! library puts it there, except for the main thread. That is only assumed if the block is less
//! than [`NEAR`] above the stack pointer, so that no other mapping lies in between.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

use super::PlacedFrame;
use crate::carried::CarriedNow;
use crate::entry::stack::Frame;
use crate::ids::DefinitionId;
use crate::label::{LabelStack, MAX_LABELS};
use crate::pool::tag::pool_tag;
use crate::sys::native::machine::{interrupted_registers, is_in_alternate_stack, thread_pointer};
use crate::sys::native::memory;
use crate::time::Timestamp;
use profiler_unwind::CopiedStack;
use profiler_unwind::Registers;

/// The maximum number of bytes of a stack that are copied. A longer stack is marked as cut.
pub(super) const STACK_BYTES: usize = 64 * 1024;
const STACK_WORDS: usize = STACK_BYTES / 8;
/// The maximum distance in bytes of a control block that is taken for the end of the stack.
const NEAR: u64 = STACK_BYTES as u64;

/// The bounds of a thread's stack; 0 if not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) lowest: u64,
    pub(super) end: u64,
    /// The thread's control block: distinguishes it from a later thread with the same number. 0 for
    /// the main thread, whose number no other thread gets.
    pub(super) thread_pointer: u64,
}

impl Bounds {
    /// The end of the stack that contains `sp`, of the thread with this control block.
    fn end_above(self, sp: u64, thread_pointer: u64) -> Option<u64> {
        if self.end == 0 {
            let distance = thread_pointer.checked_sub(sp)?;
            return (distance < NEAR).then_some(thread_pointer);
        }
        let is_its = self.thread_pointer == 0 || self.thread_pointer == thread_pointer;
        (is_its && self.lowest <= sp && sp < self.end).then_some(self.end)
    }
}

/// The data about a copy.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    at: u64,
    registers: Registers,
    thread_pointer: u64,
    /// Whether the thread ran on its own stack, as far as known.
    is_at_home: bool,
    words: usize,
    is_cut: bool,
    labels: usize,
}

/// Room for one copy.
#[repr(C, align(64))]
pub(super) struct StackCopy {
    filled: UnsafeCell<Filled>,
    stack: UnsafeCell<[u64; STACK_WORDS]>,
    labels: UnsafeCell<[PlacedFrame; MAX_LABELS]>,
    carried: UnsafeCell<CarriedNow>,
}

// SAFETY: the callers of `fill` and `seen` promise that only one of them accesses it at a time.
unsafe impl Sync for StackCopy {}

/// A thread's registers, stack and labels at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) at: Timestamp,
    pub(super) registers: Registers,
    pub(super) thread_pointer: u64,
    /// Whether it did not run on an alternate stack.
    pub(super) is_at_home: bool,
    pub(super) stack: CopiedStack<'a>,
    /// Its open labels, each with an address in the frame that opened it.
    pub(super) labels: &'a [PlacedFrame],
    /// Its trace and its group.
    pub(super) carried: CarriedNow,
}

impl StackCopy {
    /// All zeros, so a static takes memory only on first access.
    pub(super) const fn new() -> Self {
        Self {
            filled: UnsafeCell::new(Filled {
                at: 0,
                registers: Registers {
                    pc: 0,
                    sp: 0,
                    fp: 0,
                    lr: 0,
                },
                thread_pointer: 0,
                is_at_home: false,
                words: 0,
                is_cut: false,
                labels: 0,
            }),
            stack: UnsafeCell::new([0; STACK_WORDS]),
            labels: UnsafeCell::new([(Frame::Code(DefinitionId::NONE, 0), 0); MAX_LABELS]),
            carried: UnsafeCell::new(CarriedNow::NOTHING),
        }
    }

    /// Copies registers, stack and labels of the calling thread. For signal handlers: allocates
    /// nothing, takes no lock, cannot panic.
    ///
    /// # Safety
    /// `context` comes from the kernel, and its handler is still running. No other code accesses
    /// the copy during the call.
    #[inline(always)]
    pub(super) unsafe fn fill(
        &self,
        context: *const libc::ucontext_t,
        bounds: Bounds,
        labels_of: Option<&'static LabelStack>,
    ) {
        let at = Timestamp::now().raw();
        // SAFETY: the caller's promise.
        let registers = unsafe { interrupted_registers(context) };
        let thread_pointer = thread_pointer();
        let start = registers.sp & !7;
        // SAFETY: the caller's promise.
        let is_at_home = !unsafe { is_in_alternate_stack(context, start) };
        let end = bounds
            .end_above(start, thread_pointer)
            .filter(|_| is_at_home);
        let all = end.map_or(0, |end| (end - start) / 8);
        let words = (all as usize).min(STACK_WORDS);
        let words = memory::readable_bytes(start, words as u64 * 8) as usize / 8;
        // SAFETY: `words` fits the array, which only this call accesses, and all words were found
        // readable just now. This thread's own functions use the range from the interrupted stack
        // pointer to the end of its stack or to a guard page.
        unsafe {
            std::ptr::copy_nonoverlapping(
                start as *const u64,
                self.stack.get().cast::<u64>(),
                words,
            )
        };
        // SAFETY: the caller's promise.
        let room = unsafe { &mut *self.labels.get() };
        // CopiedStack on the thread itself, so the labels match the registers copied above.
        let labels = labels_of
            .and_then(|labels| labels.copy(pool_tag(), room))
            .unwrap_or(0);
        let carried = labels_of.map_or(CarriedNow::NOTHING, |labels| labels.carried.now());
        // SAFETY: the caller's promise.
        unsafe { *self.carried.get() = carried };
        let filled = Filled {
            at,
            registers,
            thread_pointer,
            is_at_home,
            words,
            is_cut: all as usize > words,
            labels,
        };
        // SAFETY: the caller's promise.
        unsafe { *self.filled.get() = filled };
    }

    /// The contents.
    ///
    /// # Safety
    /// A call of [`StackCopy::fill`] has ended, which happened before this call, and no other
    /// begins while the result lives.
    pub(super) unsafe fn seen(&self) -> Option<Seen<'_>> {
        // SAFETY: the caller's promise.
        let filled = unsafe { *self.filled.get() };
        // SAFETY: as above.
        let stack = unsafe { &*self.stack.get() };
        // SAFETY: as above.
        let labels = unsafe { &*self.labels.get() };
        // SAFETY: as above.
        let carried = unsafe { *self.carried.get() };
        Some(Seen {
            carried,
            labels: labels.get(..filled.labels)?,
            at: Timestamp::from_raw(filled.at),
            registers: filled.registers,
            thread_pointer: filled.thread_pointer,
            is_at_home: filled.is_at_home,
            stack: CopiedStack {
                start: filled.registers.sp & !7,
                words: stack.get(..filled.words)?,
                is_cut: filled.is_cut,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stack_is_known_or_a_near_control_block() {
        let unknown = Bounds::default();
        assert_eq!(unknown.end_above(1000, 1800), Some(1800));
        assert_eq!(unknown.end_above(1000, 1000 + NEAR), None, "too far");
        assert_eq!(unknown.end_above(1000, 900), None, "below the stack");
        let known = Bounds {
            lowest: 100,
            end: 2000,
            thread_pointer: 1900,
        };
        assert_eq!(known.end_above(1000, 1900), Some(2000));
        assert_eq!(known.end_above(1000, 1901), None, "another thread");
        assert_eq!(known.end_above(2000, 1900), None, "another stack");
        let main = Bounds {
            thread_pointer: 0,
            ..known
        };
        assert_eq!(main.end_above(1000, 7), Some(2000));
    }
}
