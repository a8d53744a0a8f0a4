//! Takes the stack of the calling thread in the handler of a crash.
//!
//! Called by `marker::crash`. The handler copies the stack, as a sample does, and unwinds the copy
//! itself: no other thread of a process that dies can be trusted to do it. Invariants: nothing here
//! allocates, takes a lock or waits, as far as the unwinder does not panic; the stack is only read
//! where the system reports it as readable; any registers and words are accepted. It runs on a
//! stack of the profiler's own, which has room for the unwinder.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::self_unwind;
use super::unwound::placed_frame;
use super::{Captured, PlacedFrame};
use crate::entry::stack::Frame;
use crate::sys::native::machine::interrupted_registers;
use crate::sys::native::memory::readable_bytes;
use profiler_unwind::{
    CopiedStack, FunctionMap, ModuleSnapshot, Registers, StackToWalk, StackWords, UnwindCache, walk,
};

/// The maximum number of bytes of the stack that are copied. A longer stack is marked as cut.
const STACK_BYTES: u64 = 64 * 1024;
const STACK_WORDS: usize = STACK_BYTES as usize / 8;
/// The maximum number of frames.
const MAX_FRAMES: usize = 256;
/// The size of a page that is skipped while the stack pointer is in a guard page.
const PAGE: u64 = 4096;
/// How far a function that overflows the stack may have moved the stack pointer below it.
const SKIPPED_BYTES: u64 = 1 << 20;
/// How often the modules are asked for, while the sampler may be changing them.
const TRIES: usize = 1000;

/// Memory for one stack, made before it is needed.
#[derive(Debug)]
pub(crate) struct CrashStackRoom {
    words: Box<[u64]>,
    frames: Box<[PlacedFrame]>,
    cache: Box<UnwindCache>,
}

impl CrashStackRoom {
    pub(crate) fn new() -> Self {
        Self {
            words: vec![0; STACK_WORDS].into_boxed_slice(),
            frames: vec![(Frame::Unknown(0), 0); MAX_FRAMES].into_boxed_slice(),
            cache: Box::new(UnwindCache::new()),
        }
    }

    /// The frames that [`Self::take`] has found, outermost first.
    pub(crate) fn frames(&self, captured: Captured) -> &[PlacedFrame] {
        let first = self.frames.len().saturating_sub(captured.len);
        self.frames.get(first..).unwrap_or_default()
    }

    /// Takes the stack of the thread that a signal interrupted. The innermost frame is always
    /// there.
    ///
    /// # Safety
    /// `context` is the one that the kernel passed to a handler that still runs on this thread.
    pub(crate) unsafe fn take(&mut self, context: *const libc::ucontext_t) -> Captured {
        // SAFETY: the caller's promise.
        let registers = unsafe { interrupted_registers(context) };
        let (start, count) = copy_stack(registers.sp, &mut self.words);
        let stack = CopiedStack {
            start,
            words: self.words.get(..count).unwrap_or_default(),
            is_cut: count == STACK_WORDS,
        };
        let Some(snapshot) = modules() else {
            return only(&mut self.frames, registers.pc);
        };
        let (registers, called) = caller_of_nowhere(&snapshot, registers, &stack);
        let all = self.frames.len();
        let room = all - usize::from(called.is_some());
        let to_walk = StackToWalk {
            registers,
            words: &stack,
            code: None,
            generated: None,
        };
        let frames = self.frames.get_mut(..room).unwrap_or_default();
        let walked = walk(&snapshot, &mut self.cache, to_walk, frames, placed_frame);
        give_back(snapshot);
        let mut len = walked.len;
        if let (Some(called), Some(place)) = (called, self.frames.get_mut(room)) {
            *place = called;
            len += 1;
        }
        if let Some((innermost, _)) = self.frames.last_mut() {
            *innermost = innermost.as_return_address();
        }
        Captured {
            len,
            cut: walked.cut || walked.failed,
        }
    }
}

/// The modules, or `None` while no session walks stacks.
fn modules() -> Option<Arc<ModuleSnapshot>> {
    (0..TRIES).find_map(|_| {
        std::hint::spin_loop();
        self_unwind::current()
    })
}

/// Gives the modules back. The sampler's thread keeps them longer, see `self_unwind`; should it
/// not, they are leaked: the last drop would call the allocator, in which the thread may have
/// crashed.
fn give_back(modules: Arc<ModuleSnapshot>) {
    if Arc::strong_count(&modules) == 1 {
        std::mem::forget(modules);
    }
}

/// A stack of one frame.
fn only(frames: &mut [PlacedFrame], pc: u64) -> Captured {
    let Some(place) = frames.last_mut() else {
        return Captured::default();
    };
    *place = (Frame::Unknown(pc).as_return_address(), 0);
    Captured { len: 1, cut: true }
}

/// Copies the readable words of the stack from the stack pointer on. Returns the address of the
/// first one, and their number. A function that overflows its stack may have set the stack pointer
/// into a guard page; the stack begins above it.
fn copy_stack(sp: u64, words: &mut [u64]) -> (u64, usize) {
    let mut start = sp & !7;
    let end = start.saturating_add(SKIPPED_BYTES);
    let mut bytes = readable_bytes(start, STACK_BYTES);
    while bytes < 8 && start < end {
        start = (start | (PAGE - 1)).saturating_add(1);
        bytes = readable_bytes(start, STACK_BYTES);
    }
    let count = (bytes as usize / 8).min(words.len());
    // SAFETY: the words were found readable just now, and they fit. Nothing else uses `words`.
    unsafe { std::ptr::copy_nonoverlapping(start as *const u64, words.as_mut_ptr(), count) };
    (start, count)
}

/// If the thread has jumped to an address without code, unwinding begins at its caller: a call has
/// stored the return address, and nothing has changed since. Returns the registers of the caller,
/// and the innermost frame.
pub(super) fn caller_of_nowhere(
    snapshot: &ModuleSnapshot,
    registers: Registers,
    stack: &CopiedStack<'_>,
) -> (Registers, Option<PlacedFrame>) {
    let nowhere = (Frame::Unknown(registers.pc), registers.sp);
    let caller = match cfg!(target_arch = "x86_64") {
        true => stack.word(registers.sp).map(|pc| Registers {
            pc,
            sp: registers.sp.wrapping_add(8),
            ..registers
        }),
        false => Some(Registers {
            pc: registers.lr,
            ..registers
        }),
    };
    let caller = caller.filter(|caller| snapshot.is_code(caller.pc));
    match caller.filter(|_| !snapshot.is_code(registers.pc)) {
        Some(caller) => (caller, Some(nowhere)),
        None => (registers, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_of_a_stack_begins_above_a_guard_page() {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: maps new memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4 * 4096, rights, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: our own mapping, which no other thread uses.
        assert_eq!(unsafe { libc::mprotect(start, 4096, libc::PROT_NONE) }, 0);
        let address = start as u64;
        // SAFETY: as above; the page is writable.
        unsafe { ((address + 4096) as *mut u64).write(7) };
        let mut words = vec![0; STACK_WORDS];
        let (first, count) = copy_stack(address + 100, &mut words);
        assert_eq!((first, words[0]), (address + 4096, 7));
        assert!(count >= 3 * 4096 / 8);
        let (_, count) = copy_stack(8, &mut words);
        assert_eq!(count, 0, "an address without memory");
        // SAFETY: our own mapping, which no other thread uses.
        unsafe { libc::munmap(start, 4 * 4096) };
    }
}
