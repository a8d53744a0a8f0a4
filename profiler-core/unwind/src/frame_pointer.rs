//! Finds the frame pointer of a function on the stack of a waiting thread.
//!
//! Called by `walk`, for x86-64. The system reports two registers of a waiting thread: the stack
//! pointer and the address of the next instruction. Most functions can be unwound with these two. A
//! function that keeps a frame pointer can be unwound only with the frame pointer. It is known if a
//! called function has saved it on the stack.
//!
//! Otherwise, one of two sources proposes values:
//!
//! 1. The function's first instructions, if they determine the distance between the stack pointer
//!    and the frame pointer (`prologue`).
//! 2. If not, the words of the stack. A saved frame pointer is followed by a return address.
//!
//! A value is checked with the return address that results from it: the instruction before it must
//! be a call (`calls`). A call of the function proves the value. A call through a register does not
//! contradict it.
//!
//! One value is accepted:
//!
//! - The first instructions do not align the stack pointer: the one value, if the call proves or
//!   does not contradict it. If the call is missing because the function has pushed arguments: the
//!   only proven value.
//! - The first instructions align the stack pointer: the only proven value, if no call through a
//!   register leads to another value. Without a proven value: the only value with a call, if the
//!   call is through a register.
//! - Words of the stack: the only proven value, if no call through a register comes before it.
//!
//! A call of the function that has returned may have left its return address on the stack, so
//! several values mean that none is accepted. Unwinding then ends at the function.
//!
//! Invariant: any bytes of code and of the stack are accepted.

use crate::calls::{CallTarget, CodeReader};
use crate::prologue::{self, FixedFrame};
use crate::stack_words::StackWords;

/// The bytes of a function that are read to find its frame.
const FUNCTION_BYTES: usize = 8192;
/// The maximum number of arguments that the function has pushed for a call.
const MAX_PUSHED_ARGUMENTS: u64 = 8;
/// The number of bytes above the stack pointer that are searched for a saved frame pointer.
const SEARCHED_STACK_BYTES: u64 = 8192;

/// A function on the stack of a waiting thread.
#[derive(Clone, Copy)]
pub(crate) struct WaitingFunction<'a, S> {
    pub(crate) code: &'a CodeReader<'a>,
    pub(crate) stack: &'a S,
    /// The address of its first instruction.
    pub(crate) start: u64,
    /// The address of the next instruction that it executes.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// Whether it waits in a call that it has made, and not in a page fault.
    pub(crate) is_calling: bool,
}

impl<S: StackWords> WaitingFunction<'_, S> {
    /// Finds the frame pointer.
    pub(crate) fn frame_pointer(&self) -> Option<u64> {
        match self.frame().filter(|_| self.is_calling) {
            Some(frame) if frame.is_aligned() => self.by_padding(frame),
            Some(frame) => self.by_distance(frame),
            None => self.by_stack(),
        }
    }

    /// The function's frame, if its size does not change after the first instructions.
    fn frame(&self) -> Option<FixedFrame> {
        let len = usize::try_from(self.pc.checked_sub(self.start)?).ok()?;
        let mut room = [0; FUNCTION_BYTES];
        let code = self.code.read(self.start, room.get_mut(..len)?);
        (code.len() == len).then(|| prologue::read(code)).flatten()
    }

    /// The call from which the function returns, if its frame pointer has this value.
    fn call(&self, frame_pointer: u64) -> Option<CallTarget> {
        let return_address = self.stack.word(frame_pointer.checked_add(8)?)?;
        self.code.call_before(return_address, self.start)
    }

    fn is_proven(&self, frame_pointer: u64) -> bool {
        self.call(frame_pointer) == Some(CallTarget::Function)
    }

    fn by_distance(&self, frame: FixedFrame) -> Option<u64> {
        let value = frame.frame_pointers(self.sp).next()?;
        match self.call(value) {
            Some(CallTarget::Function | CallTarget::Unknown) => Some(value),
            Some(CallTarget::Other) => None,
            None => only(
                (1..=MAX_PUSHED_ARGUMENTS)
                    .map(|arguments| value.wrapping_add(arguments * 8))
                    .filter(|value| self.is_proven(*value)),
            ),
        }
    }

    fn by_padding(&self, frame: FixedFrame) -> Option<u64> {
        let values = frame
            .frame_pointers(self.sp)
            .filter_map(|value| Some((value, self.call(value)?)));
        let mut proven = None;
        let mut unknown = None;
        let mut has_other = false;
        for (value, target) in values {
            let place = match target {
                CallTarget::Function => &mut proven,
                CallTarget::Unknown => &mut unknown,
                CallTarget::Other => {
                    has_other = true;
                    continue;
                }
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        match (proven, unknown, has_other) {
            (Some(value), None, _) | (None, Some(value), false) => Some(value),
            _ => None,
        }
    }

    fn by_stack(&self) -> Option<u64> {
        let first = self.sp.checked_next_multiple_of(8)?;
        let last = self.sp.checked_add(SEARCHED_STACK_BYTES)?;
        let calls = (first..last)
            .step_by(8)
            .take_while(|place| self.stack.word(*place).is_some())
            .filter_map(|place| Some((place, self.call(place)?)))
            .filter(|(_, target)| *target != CallTarget::Other);
        let mut proven = None;
        for (place, target) in calls {
            match (target, proven) {
                (CallTarget::Function, None) => proven = Some(place),
                (CallTarget::Function, Some(_)) | (_, None) => return None,
                (_, Some(_)) => {}
            }
        }
        proven
    }
}

/// The only item; `None` if there are several.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
