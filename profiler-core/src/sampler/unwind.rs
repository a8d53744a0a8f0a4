//! Unwinds registers and a piece of stack into frames. Allocates nothing, takes no lock, and causes
//! no fault.
//!
//! Used by the sampler's thread with a copied stack, and by [`super::self_unwind`] with the calling
//! thread's own. The immutable [`Snapshot`] holds all data about modules.

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, Module, UnwindRegsNative, Unwinder,
    UnwinderNative,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::PlacedFrame;
use super::elf::Image;
use super::storage::SmallRows;
use crate::entry::stack::Frame;
use crate::ids::DefinitionId;
use crate::sys::native::machine::Registers;

type Tables = UnwinderNative<Arc<[u8]>, SmallRows>;

/// A file with code, and its number in the pool.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The address at which the file's address 0 is loaded; may wrap around (two's complement).
    pub(super) bias: u64,
    pub(super) id: DefinitionId,
}

/// The modules at one moment. Immutable: a newer one replaces it.
pub(crate) struct Snapshot {
    tables: Tables,
    /// Sorted by address.
    modules: Vec<Placed>,
    /// The main thread's stack, from its lowest possible address to its upper end.
    pub(super) main_stack: (u64, u64),
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("modules", &self.modules)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Makes a snapshot of these modules.
    pub(super) fn new(mut modules: Vec<(Placed, &Image)>, main_stack: (u64, u64)) -> Self {
        modules.sort_unstable_by_key(|(placed, _)| placed.start);
        let mut tables = Tables::new();
        for (placed, image) in &modules {
            tables.add_module(module_of(placed, image));
        }
        Self {
            tables,
            modules: modules.into_iter().map(|(placed, _)| placed).collect(),
            main_stack,
        }
    }

    /// The module that contains an address.
    pub(super) fn module(&self, address: u64) -> Option<&Placed> {
        let after = self
            .modules
            .partition_point(|module| module.start <= address);
        self.modules
            .get(after.checked_sub(1)?)
            .filter(|module| address < module.end)
    }

    fn frame(&self, address: u64) -> Frame {
        match self.module(address) {
            Some(module) if !module.id.is_none() => {
                Frame::Code(module.id, address.wrapping_sub(module.bias))
            }
            _ => Frame::Unknown(address),
        }
    }
}

fn module_of(placed: &Placed, image: &Image) -> Module<Arc<[u8]>> {
    let mut sections = ExplicitModuleSectionInfo {
        base_svma: image.addresses.start,
        ..Default::default()
    };
    if let Some((index, frames)) = &image.tables {
        sections.eh_frame_hdr_svma = Some(index.addresses.clone());
        sections.eh_frame_hdr = Some(Arc::clone(&index.bytes));
        sections.eh_frame_svma = Some(frames.addresses.clone());
        sections.eh_frame = Some(Arc::clone(&frames.bytes));
    }
    Module::new(
        String::new(),
        placed.start..placed.end,
        placed.start,
        sections,
    )
}

/// The unwinder's cache across stacks; about 16 KiB.
pub(super) struct Cache(CacheNative<SmallRows>);

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cache")
    }
}

impl Cache {
    pub(super) fn new() -> Self {
        Self(CacheNative::new_in())
    }
}

/// A source of a stack's words.
pub(super) trait StackWords {
    /// The word at an address of the stack, if available.
    fn word(&self, address: u64) -> Option<u64>;
    /// Whether the address is in the stack but beyond the available piece.
    fn is_beyond(&self, address: u64) -> bool;
}

/// A copy of the start of a stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied<'a> {
    /// The address it was copied from.
    pub(super) start: u64,
    pub(super) words: &'a [u64],
    /// Whether the stack was longer than the copy.
    pub(super) is_cut: bool,
}

impl StackWords for Copied<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = address
            .checked_sub(self.start)
            .filter(|offset| offset % 8 == 0)?;
        self.words.get(usize::try_from(offset / 8).ok()?).copied()
    }

    fn is_beyond(&self, address: u64) -> bool {
        let end = self.start.saturating_add(self.words.len() as u64 * 8);
        // A frame may reach a limited distance past the end of the piece.
        self.is_cut && address >= end && address - end < 1 << 20
    }
}

/// The result of unwinding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    /// The number of frames, which are at the end of the buffer, outermost first.
    pub(super) len: usize,
    /// Whether outer frames are missing.
    pub(super) cut: bool,
    /// Whether a frame could not be unwound.
    pub(super) failed: bool,
    /// The innermost address in no known module.
    pub(super) unknown: Option<u64>,
}

/// Placeholder for an unknown frame pointer: unwinding by it fails.
pub(super) const NO_FRAME_POINTER: u64 = 8;

/// Unwinds from the innermost frame out. The frames are stored at the end of `frames`, outermost
/// first. If not all fit, the outermost are left out.
pub(super) fn walk(
    snapshot: &Snapshot,
    cache: &mut Cache,
    registers: Registers,
    stack: &impl StackWords,
    frames: &mut [PlacedFrame],
) -> Walked {
    let mut walked = Walked::default();
    let mut walk = AssertUnwindSafe(&mut walked);
    let body =
        AssertUnwindSafe(|| walk_unguarded(snapshot, cache, registers, stack, frames, &mut walk));
    // framehop has no unsafe code, but table contents may make it index out of bounds and panic.
    let body = catch_unwind(body);
    walked.failed |= body.is_err();
    walked
}

fn walk_unguarded(
    snapshot: &Snapshot,
    cache: &mut Cache,
    registers: Registers,
    stack: &impl StackWords,
    frames: &mut [PlacedFrame],
    walked: &mut Walked,
) {
    let beyond = std::cell::Cell::new(false);
    let mut read = |address: u64| {
        beyond.set(stack.is_beyond(address));
        stack.word(address).ok_or(())
    };
    let mut regs = native(registers);
    let mut at = FrameAddress::from_instruction_pointer(registers.pc);
    loop {
        let Some(place) = frames
            .len()
            .checked_sub(walked.len + 1)
            .and_then(|free| frames.get_mut(free))
        else {
            walked.cut = true;
            return;
        };
        *place = (snapshot.frame(at.address()), stack_pointer(&regs));
        walked.len += 1;
        if snapshot.module(at.address_for_lookup()).is_none() {
            walked.unknown = walked.unknown.or(Some(at.address()));
        }
        beyond.set(false);
        let mut next = snapshot
            .tables
            .unwind_frame(at, &mut regs, &mut cache.0, &mut read);
        if next.is_err()
            && frame_pointer(&regs) == NO_FRAME_POINTER
            && let Some(pointer) = likely_frame_pointer(snapshot, stack, stack_pointer(&regs))
        {
            set_frame_pointer(&mut regs, pointer);
            next = snapshot
                .tables
                .unwind_frame(at, &mut regs, &mut cache.0, &mut read);
        }
        let outer = next.map(|address| address.map(FrameAddress::from_return_address));
        match outer {
            Ok(Some(Some(outer))) => at = outer,
            Ok(None | Some(None)) => return,
            // A thread's outermost function has a null return address.
            Err(framehop::Error::ReturnAddressIsNull) => return,
            Err(_) => {
                (walked.cut, walked.failed) = (beyond.get(), !beyond.get());
                return;
            }
        }
    }
}

/// The first place above `sp` that looks like a saved frame pointer and return address: a word that
/// points further up the stack, then an address in a module.
fn likely_frame_pointer(snapshot: &Snapshot, stack: &impl StackWords, sp: u64) -> Option<u64> {
    const REACH: u64 = 4096;
    let is_likely = |place: &u64| {
        let (Some(next), Some(back)) = (stack.word(*place), stack.word(place + 8)) else {
            return false;
        };
        let is_further_out =
            next > *place && next % 8 == 0 && (stack.word(next).is_some() || stack.is_beyond(next));
        is_further_out && snapshot.module(back).is_some()
    };
    (sp.checked_next_multiple_of(8)?..sp.checked_add(REACH)?)
        .step_by(8)
        .find(is_likely)
}

#[cfg(target_arch = "x86_64")]
fn native(registers: Registers) -> UnwindRegsNative {
    UnwindRegsNative::new(registers.pc, registers.sp, registers.fp)
}

#[cfg(target_arch = "x86_64")]
fn stack_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.sp()
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.bp()
}

#[cfg(target_arch = "x86_64")]
fn set_frame_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_bp(pointer);
}

/// Removes the signature from return addresses: user addresses have 48 bits, or 52.
#[cfg(target_arch = "aarch64")]
fn native(registers: Registers) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask((1 << 48) - 1);
    UnwindRegsNative::new_with_ptr_auth_mask(mask, registers.lr, registers.sp, registers.fp)
}

#[cfg(target_arch = "aarch64")]
fn stack_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.sp()
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(regs: &UnwindRegsNative) -> u64 {
    regs.fp()
}

#[cfg(target_arch = "aarch64")]
fn set_frame_pointer(regs: &mut UnwindRegsNative, pointer: u64) {
    regs.set_fp(pointer);
}
