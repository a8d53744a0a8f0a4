//! Unwinds registers and a piece of stack into frames. Allocates nothing, takes no lock, and causes
//! no fault.
//!
//! Called by the sampler's thread with a copied stack, and by a thread that captures its own. The
//! immutable [`ModuleSnapshot`] holds all data about modules.
//!
//! Invariants: any registers, words, tables and code are accepted; a stack that cannot be unwound to
//! its end is marked.

use framehop::{CacheNative, Error, FrameAddress, UnwindRegsNative, Unwinder};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::calls::{CodeReader, FunctionMap};
use crate::frame::UnwoundFrame;
use crate::frame_pointer::WaitingFunction;
use crate::generated_code::{Epilogue, GeneratedCode};
use crate::registers::{
    Registers, frame_pointer, native, set_frame_pointer, set_stack_pointer, stack_pointer,
};
use crate::return_address::{Facts, KeptFacts, Standing, standing};
use crate::snapshot::{ModuleSnapshot, PlacedModule};
use crate::stack_words::StackWords;
use crate::storage::SmallRows;
use crate::without_tables::Uncovered;

/// The unwinder's cache across stacks; about 40 KiB.
pub struct UnwindCache {
    rules: CacheNative<SmallRows>,
    facts: KeptFacts,
}

impl std::fmt::Debug for UnwindCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnwindCache")
    }
}

impl Default for UnwindCache {
    fn default() -> Self {
        Self::new()
    }
}

impl UnwindCache {
    /// Makes an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rules: CacheNative::new_in(),
            facts: KeptFacts::new(),
        }
    }
}

/// The result of unwinding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// The number of frames, which are at the end of the buffer, outermost first.
    pub len: usize,
    /// Whether outer frames are missing.
    pub cut: bool,
    /// Whether a frame could not be unwound.
    pub failed: bool,
    /// The innermost address in no known module.
    pub unknown: Option<u64>,
    /// Whether the unwinder failed for lack of a frame pointer and may have stored a wrong rule in
    /// its cache.
    pub has_spoiled_cache: bool,
}

/// The value of an unknown frame pointer. Unwinding with it fails.
pub const UNKNOWN_FRAME_POINTER: u64 = 8;

/// A stack, and the registers with which unwinding begins.
#[derive(Clone, Copy)]
pub struct StackToWalk<'a, S> {
    /// Where the thread is.
    pub registers: Registers,
    /// The words of the stack.
    pub words: &'a S,
    /// The code of the process, if the frame pointer is unknown because the thread waits.
    pub code: Option<&'a CodeReader<'a>>,
    /// The generated code of the process, if it is to be read.
    pub generated: Option<GeneratedCode<'a>>,
}

impl<S> std::fmt::Debug for StackToWalk<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackToWalk")
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

/// Unwinds from the innermost frame out. The frames are stored at the end of `frames`, outermost
/// first, each made by `frame_of`. If not all fit, the outermost are left out.
pub fn walk<S: StackWords, F>(
    snapshot: &ModuleSnapshot,
    cache: &mut UnwindCache,
    stack: StackToWalk<'_, S>,
    frames: &mut [F],
    frame_of: fn(UnwoundFrame) -> F,
) -> Walked {
    let mut walked = Walked::default();
    let waits = stack.registers.fp == UNKNOWN_FRAME_POINTER;
    let mut walk = AssertUnwindSafe(&mut walked);
    let body =
        AssertUnwindSafe(|| walk_unguarded(snapshot, cache, stack, (frames, frame_of), &mut walk));
    // framehop has no unsafe code, but table contents may make it index out of bounds and panic.
    let body = catch_unwind(body);
    walked.failed |= body.is_err() || (waits && has_lost_link(&walked));
    walked
}

/// Whether the stack of a waiting thread ends because its link register, which has the caller of
/// the innermost function, is unknown: the system reports only the program counter and the stack
/// pointer.
const fn has_lost_link(walked: &Walked) -> bool {
    cfg!(target_arch = "aarch64") && walked.len == 1
}

fn walk_unguarded<S: StackWords, F>(
    snapshot: &ModuleSnapshot,
    cache: &mut UnwindCache,
    stack: StackToWalk<'_, S>,
    (frames, frame_of): (&mut [F], fn(UnwoundFrame) -> F),
    walked: &mut Walked,
) {
    let mut regs = native(stack.registers);
    let mut at = FrameAddress::from_instruction_pointer(stack.registers.pc);
    let has_link = Cell::new(stack.registers.fp != 0);
    let mut walk = Walk {
        snapshot,
        cache,
        stack,
        beyond: Cell::new(false),
        module: snapshot.module(at.address()),
        has_link,
    };
    let mut facts = Facts {
        standing: Standing::Unknown,
        is_covered: walk
            .module
            .is_some_and(|module| module.is_covered(at.address())),
    };
    loop {
        let Some(place) = frames
            .len()
            .checked_sub(walked.len + 1)
            .and_then(|free| frames.get_mut(free))
        else {
            walked.cut = true;
            return;
        };
        *place = frame_of(frame_in(walk.module, at.address(), stack_pointer(&regs)));
        walked.len += 1;
        if !walk.is_in_module(at) {
            walked.unknown = walked.unknown.or(Some(at.address()));
        }
        walk.beyond.set(false);
        let outer = match walk.step((at, facts), &mut regs, walked) {
            Ok(outer) => outer.and_then(FrameAddress::from_return_address),
            // A thread's outermost function has a null return address.
            Err(Error::ReturnAddressIsNull) => return,
            Err(_) => {
                walked.cut = walk.beyond.get();
                walked.failed = !walk.beyond.get();
                return;
            }
        };
        let Some(outer) = outer else { return };
        walk.module = snapshot.module_near(walk.module, outer.address());
        let found = walk.facts(outer);
        if !walk.is_accepted(outer.address(), found, facts) {
            walked.failed = true;
            walked.unknown = walked
                .unknown
                .or(walk.module.is_none().then(|| outer.address()));
            return;
        }
        (at, facts) = (outer, found);
    }
}

/// The frame of an address in this module.
fn frame_in(module: Option<&PlacedModule>, address: u64, sp: u64) -> UnwoundFrame {
    let numbered = module.filter(|module| module.number.is_some());
    UnwoundFrame {
        module: numbered.and_then(|module| module.number),
        address: numbered.map_or(address, |module| address.wrapping_sub(module.bias)),
        sp,
    }
}

/// One walk of a stack.
struct Walk<'a, S> {
    snapshot: &'a ModuleSnapshot,
    cache: &'a mut UnwindCache,
    stack: StackToWalk<'a, S>,
    /// Whether the last word that was not available is beyond the available piece.
    beyond: Cell<bool>,
    /// The module of the present frame.
    module: Option<&'a PlacedModule>,
    /// Whether the innermost function had a frame pointer that was not null.
    has_link: Cell<bool>,
}

impl<'a, S: StackWords> Walk<'a, S> {
    fn read(&self, address: u64) -> Result<u64, ()> {
        let words = self.stack.words;
        words
            .word(address)
            .ok_or_else(|| self.beyond.set(words.is_beyond(address)))
    }

    fn is_in_module(&self, at: FrameAddress) -> bool {
        let module = self
            .snapshot
            .module_near(self.module, at.address_for_lookup());
        module.is_some()
    }

    /// Unwinds a frame; returns the return address. `None` at the end of the stack.
    fn step(
        &mut self,
        (at, facts): (FrameAddress, Facts),
        regs: &mut UnwindRegsNative,
        walked: &mut Walked,
    ) -> Result<Option<u64>, Error> {
        if facts.is_covered {
            self.by_tables(at, regs, walked)
        } else {
            self.without_tables(at, regs)
        }
    }

    #[inline(never)] // most stacks do not need this stack space
    fn without_tables(
        &self,
        at: FrameAddress,
        regs: &mut UnwindRegsNative,
    ) -> Result<Option<u64>, Error> {
        let is_in_module = self.is_in_module(at);
        if let Some(generated) = self.stack.generated.filter(|_| !is_in_module)
            && let Some(epilogue) = generated.epilogue(at.address())
        {
            return run_epilogue(epilogue, regs, &|address| self.read(address));
        }
        let code = self.stack.code;
        let uncovered = Uncovered {
            at,
            is_in_module,
            has_link: &self.has_link,
            read: &|address| self.read(address),
            code,
            standing: &|address| self.find_standing(self.snapshot.module(address), address),
            is_code: &|address| {
                let module = self.snapshot.module(address);
                module.is_some_and(|module| module.is_executable(address))
            },
            is_covered: &|address| {
                let module = self.snapshot.module(address);
                module.is_some_and(|module| module.is_covered(address))
            },
        };
        uncovered.step(regs)
    }

    fn by_tables(
        &mut self,
        at: FrameAddress,
        regs: &mut UnwindRegsNative,
        walked: &mut Walked,
    ) -> Result<Option<u64>, Error> {
        if matches!(frame_pointer(regs), 0 | UNKNOWN_FRAME_POINTER) {
            self.by_tables_checked(at, regs, walked)
        } else {
            self.apply_tables(at, regs)
        }
    }

    /// Unwinds a frame whose frame pointer is null or unknown.
    #[inline(never)] // other frames then take less of the stack
    fn by_tables_checked(
        &mut self,
        at: FrameAddress,
        regs: &mut UnwindRegsNative,
        walked: &mut Walked,
    ) -> Result<Option<u64>, Error> {
        let before = *regs;
        let is_unknown = frame_pointer(&before) == UNKNOWN_FRAME_POINTER;
        match self.apply_tables(at, regs) {
            Ok(None) if !is_unknown && cfg!(target_arch = "x86_64") => self.check_end(at, &before),
            Err(error) if is_unknown => {
                *regs = before;
                self.with_found_frame_pointer((at, error), regs, walked)
            }
            next => next,
        }
    }

    /// Does with the registers what the tables say.
    #[inline(never)] // its callers then take less of the stack
    fn apply_tables(
        &mut self,
        at: FrameAddress,
        regs: &mut UnwindRegsNative,
    ) -> Result<Option<u64>, Error> {
        let (words, beyond) = (self.stack.words, &self.beyond);
        let mut read = |address: u64| {
            words
                .word(address)
                .ok_or_else(|| beyond.set(words.is_beyond(address)))
        };
        let tables = &self.snapshot.tables;
        tables.unwind_frame(at, regs, &mut self.cache.rules, &mut read)
    }

    /// Whether the tables say that the stack ends, with a null frame pointer. For a table that it
    /// does not understand, framehop follows the frame pointer, and takes a null for the end of the
    /// stack. A table that says so does it for any frame pointer.
    #[cold]
    #[inline(never)]
    fn check_end(
        &mut self,
        at: FrameAddress,
        regs: &UnwindRegsNative,
    ) -> Result<Option<u64>, Error> {
        let mut regs = *regs;
        set_frame_pointer(&mut regs, UNKNOWN_FRAME_POINTER);
        match self.apply_tables(at, &mut regs)? {
            None => Ok(None),
            Some(_) => Err(Error::DidNotAdvance),
        }
    }

    /// Unwinds the frame of a waiting thread for which the tables need the frame pointer.
    #[cold]
    #[inline(never)]
    fn with_found_frame_pointer(
        &mut self,
        (at, error): (FrameAddress, Error),
        regs: &mut UnwindRegsNative,
        walked: &mut Walked,
    ) -> Result<Option<u64>, Error> {
        // Only the rule for a frame record, `(sp, fp) = (fp + 16, *fp)`, fails in this way.
        let needs_record = error == Error::FramepointerUnwindingMovedBackwards;
        walked.has_spoiled_cache |= !needs_record;
        let code = self.stack.code;
        let pointer = code
            .filter(|_| needs_record && cfg!(target_arch = "x86_64"))
            .and_then(|code| find_frame_pointer(self.snapshot, &self.stack, code, at, regs))
            .ok_or(error)?;
        set_frame_pointer(regs, pointer);
        self.apply_tables(at, regs)
    }

    /// What is known of a return address in the present module.
    fn facts(&self, at: FrameAddress) -> Facts {
        let find = || {
            let lookup = at.address_for_lookup();
            let module = self.snapshot.module_near(self.module, lookup);
            let facts = Facts {
                standing: self.find_standing(self.module, at.address()),
                is_covered: module.is_some_and(|module| module.is_covered(lookup)),
            };
            // Code that is generated later may be at an address that is none now.
            let is_certain = matches!(
                facts.standing,
                Standing::BehindCall | Standing::SignalReturn
            );
            (facts, is_certain || self.stack.code.is_none())
        };
        self.cache
            .facts
            .get(self.snapshot.number, at.address(), find)
    }

    /// What is known of an address in this module, or in none.
    fn find_standing(&self, module: Option<&PlacedModule>, address: u64) -> Standing {
        let found = match (module, self.stack.code, self.stack.generated) {
            (Some(module), ..) if !module.is_executable(address.wrapping_sub(1)) => {
                Some(Standing::Elsewhere)
            }
            (_, None, _) => None,
            (Some(_), Some(code), _) => standing(
                address,
                |first, room| code.read(first, room).len(),
                |target| self.snapshot.module(target).is_some(),
            ),
            (None, _, Some(generated)) if !generated.ranges.contains(address) => {
                Some(Standing::Elsewhere)
            }
            (None, Some(code), _) => standing(
                address,
                |first, room| code.read_anywhere(first, room),
                |_| true,
            )
            .or_else(|| code.is_complete().then_some(Standing::Elsewhere)),
        };
        found.unwrap_or(Standing::Unknown)
    }

    /// Whether an address that a frame with these facts returned is its caller.
    fn is_accepted(&self, address: u64, found: Facts, frame: Facts) -> bool {
        if found.standing != Standing::Elsewhere || frame.standing == Standing::SignalReturn {
            return true; // a signal may interrupt any instruction
        }
        // The function that ends a thread or a coroutine is often called by nothing. Without
        // tables, `Uncovered` has decided.
        let module = self.module.filter(|module| module.is_executable(address));
        module.is_some()
            && (!frame.is_covered || self.snapshot.function_start(address) == Some(address))
    }
}

/// Does with the registers what an epilogue does; returns the return address.
#[inline(never)] // a capture on the program's own thread does not need this stack space
fn run_epilogue(
    epilogue: Epilogue,
    regs: &mut UnwindRegsNative,
    read: &dyn Fn(u64) -> Result<u64, ()>,
) -> Result<Option<u64>, framehop::Error> {
    let sp = stack_pointer(regs);
    let word = |offset: u64| {
        let place = sp
            .checked_add(offset)
            .ok_or(framehop::Error::IntegerOverflow)?;
        read(place).map_err(|()| framehop::Error::CouldNotReadStack(place))
    };
    let return_address = word(8)?;
    if epilogue == Epilogue::PopFramePointer {
        set_frame_pointer(regs, word(0)?);
    }
    let outer = sp.checked_add(16).ok_or(framehop::Error::IntegerOverflow)?;
    set_stack_pointer(regs, outer);
    Ok(Some(return_address))
}

/// Finds the frame pointer of the function at `at`.
#[cold]
#[inline(never)] // a capture on the program's own thread does not need this stack space
fn find_frame_pointer<S: StackWords>(
    snapshot: &ModuleSnapshot,
    stack: &StackToWalk<'_, S>,
    code: &CodeReader<'_>,
    at: FrameAddress,
    regs: &UnwindRegsNative,
) -> Option<u64> {
    let function = WaitingFunction {
        code,
        stack: stack.words,
        start: snapshot.function_start(at.address_for_lookup())?,
        pc: at.address(),
        sp: stack_pointer(regs),
        is_calling: matches!(at, FrameAddress::ReturnAddress(_)),
    };
    function.frame_pointer()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
