//! Captures the stack of the calling thread, for markers and allocations.
//!
//! Called wherever a program records, including inside its allocator. It waits for no lock, and
//! allocates nothing; the C library may allocate when a thread first asks for the bounds of its
//! stack. If anything is not available at once, the stack is left out. Uses the modules that the
//! sampler's thread published last. Reads only between the thread's stack pointer and the end of
//! its stack.
//!
//! Invariant: only the sampler's thread drops a snapshot, never a capturing thread.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::unwound::placed_frame;
use super::{Captured, PlacedFrame};
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys::native::alternate_stack::signal_frame_bytes;
use crate::sys::native::machine::{own_registers, own_stack};
use profiler_sys::Renewable;
use profiler_unwind::Registers;
use profiler_unwind::{ModuleSnapshot, StackToWalk, StackWords, UnwindCache, walk};

/// The maximum number of threads that capture at the same time; further threads get no stack.
const CACHES: usize = 4;

static CURRENT: Renewable<RwLock<Option<Arc<ModuleSnapshot>>>> = Renewable::new(RwLock::new(None));
/// Whether a captured stack had an address in no known module.
static MET_UNKNOWN: AtomicU64 = AtomicU64::new(0);
static CAPTURING: [Renewable<Mutex<Option<UnwindCache>>>; CACHES] =
    [const { Renewable::new(Mutex::new(None)) }; CACHES];

/// The maximum number of bytes of the calling thread's stack that the unwinder uses, as the sum of
/// its frames; `docs/failure-modes.md` describes the measurement. An unwinder built without
/// optimization uses more.
const WALK_BYTES: u64 = if cfg!(debug_assertions) { 6912 } else { 5376 };
/// The stack use of the sampler's signal handler, which may interrupt the unwinder.
const HANDLER_BYTES: u64 = 512;

thread_local! {
    /// The bounds of the thread's stack; (0, 0) not asked yet, (1, 1) unknown.
    static STACK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Captures the stack of the calling thread: the return addresses of all functions but this one,
/// outermost first. `None` while no session walks stacks. A stack that cannot be walked now is left
/// out, and marked as cut.
#[inline(never)]
pub(crate) fn capture(frames: &mut [PlacedFrame]) -> Option<Captured> {
    let registers = own_registers();
    if session_state::is_foreign() {
        return None; // a forked child
    }
    let left_out = Captured { len: 0, cut: true };
    let snapshot = match CURRENT.try_read() {
        Ok(snapshot) => snapshot.clone()?,
        Err(_) => return Some(left_out),
    };
    Some(try_capture(&snapshot, registers, frames).unwrap_or(left_out))
}

fn try_capture(
    snapshot: &ModuleSnapshot,
    registers: Registers,
    frames: &mut [PlacedFrame],
) -> Option<Captured> {
    let (lowest, end) = bounds(registers.sp, snapshot.main_stack)?;
    if registers.sp - lowest < WALK_BYTES + HANDLER_BYTES + signal_frame_bytes() {
        return None;
    }
    let mut place = CAPTURING
        .iter()
        .find_map(|place| place.try_lock().ok().filter(|place| place.is_some()))?;
    let words = OwnStack {
        start: registers.sp,
        end,
    };
    let stack = StackToWalk {
        registers,
        words: &words,
        code: None,
        generated: None, // reading code takes a system call
    };
    let walked = walk(snapshot, place.as_mut()?, stack, frames, placed_frame);
    drop(place);
    if walked.unknown.is_some() {
        MET_UNKNOWN.store(1, Ordering::Relaxed);
    }
    let all = frames.len();
    // The innermost frame is in this file.
    let len = walked.len.checked_sub(1)?;
    frames.copy_within(all - walked.len..all - 1, 0);
    Some(Captured {
        len,
        cut: walked.cut || walked.failed,
    })
}

/// The stack that contains `sp`, if it is the thread's own. Other stacks, such as a coroutine's,
/// are not walked.
fn bounds(sp: u64, main: (u64, u64)) -> Option<(u64, u64)> {
    let contains = |(start, end): (u64, u64)| start <= sp && sp < end;
    if contains(main) {
        return Some(main);
    }
    let known = STACK.with(|stack| {
        if stack.get() == (0, 0) {
            stack.set((1, 1)); // in case the call captures a stack
            stack.set(own_stack().unwrap_or((1, 1)));
        }
        stack.get()
    });
    contains(known).then_some(known)
}

/// The used part of the calling thread's stack.
struct OwnStack {
    start: u64,
    end: u64,
}

impl StackWords for OwnStack {
    fn word(&self, address: u64) -> Option<u64> {
        let is_in = self.start <= address
            && address <= self.end.checked_sub(8)?
            && address.is_multiple_of(8);
        // SAFETY: the address is aligned and lies between the stack pointer of a function that has
        // not returned and the upper end of its stack, which is mapped while the thread lives.
        is_in.then(|| unsafe { (address as *const u64).read_volatile() })
    }

    fn is_beyond(&self, _address: u64) -> bool {
        false
    }
}

/// Publishes a snapshot for capturing threads; returns the previous one. Called by the sampler's
/// thread, which keeps the previous one until no other thread uses it.
pub(super) fn publish(snapshot: Option<Arc<ModuleSnapshot>>) -> Option<Arc<ModuleSnapshot>> {
    if snapshot.is_some() {
        for place in &CAPTURING {
            place
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(UnwindCache::new);
        }
    }
    std::mem::replace(
        &mut *CURRENT.write().unwrap_or_else(PoisonError::into_inner),
        snapshot,
    )
}

/// The modules as of the last refresh of the sampler; `None` while no session walks stacks, and
/// while the sampler changes them. Does not wait. The sampler's thread keeps them longer than the
/// result, so its drop frees nothing.
pub(super) fn current() -> Option<Arc<ModuleSnapshot>> {
    CURRENT.try_read().ok()?.clone()
}

/// In a forked child that begins anew: forgets the modules that the parent's sampler has published,
/// and the caches that threads of the parent were using.
pub(super) fn forget_parent() {
    CURRENT.renew(RwLock::new(None));
    CAPTURING
        .iter()
        .for_each(|place| place.renew(Mutex::new(None)));
}

/// Whether a captured stack had an unknown address since the last call.
pub(super) fn has_met_unknown() -> bool {
    MET_UNKNOWN.load(Ordering::Relaxed) != 0 && MET_UNKNOWN.swap(0, Ordering::Relaxed) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::stack::Frame;
    use crate::sys::native::memory::OwnMemory;
    use profiler_sys::Maps;
    use profiler_unwind::Image;
    use profiler_unwind::PlacedModule;

    /// All files of this process, without definitions.
    fn snapshot() -> ModuleSnapshot {
        let mut maps = Maps::default();
        let memory = OwnMemory::open();
        maps.read().unwrap();
        let images: Vec<_> = maps
            .iter()
            .filter(|line| line.offset == 0 && line.readable && line.inode != 0)
            .filter_map(|line| Image::read(&memory, line.start))
            .collect();
        let placed = images.iter().map(|image| {
            let start = image.bias + image.addresses.start;
            let end = image.bias + image.addresses.end;
            (
                PlacedModule {
                    start,
                    end,
                    bias: image.bias,
                    number: None,
                    code: Arc::clone(&image.code),
                    functions: image.functions(),
                },
                image,
            )
        });
        ModuleSnapshot::new(placed.collect(), (0, 0))
    }

    #[inline(never)]
    fn inner(room: &mut [PlacedFrame]) -> Option<Captured> {
        std::hint::black_box(capture(room))
    }

    #[inline(never)]
    fn outer(room: &mut [PlacedFrame]) -> Option<Captured> {
        std::hint::black_box(inner(room))
    }

    #[test]
    fn a_thread_captures_its_functions_outermost_first() {
        session_state::set_up();
        let mut room = [(Frame::Unknown(0), 0); 200];
        assert_eq!(outer(&mut room), None, "no session walks stacks");
        publish(Some(Arc::new(snapshot())));
        let captured = outer(&mut room).unwrap();
        let mut few = [(Frame::Unknown(0), 0); 3];
        let cut = outer(&mut few);
        let is_alone = std::thread::scope(|scope| {
            let places: Vec<_> = CAPTURING
                .iter()
                .map(|place| place.lock().unwrap())
                .collect();
            let alone = scope
                .spawn(|| outer(&mut [(Frame::Unknown(0), 0); 200]))
                .join()
                .unwrap();
            drop(places);
            alone == Some(Captured { len: 0, cut: true })
        });
        publish(None);
        let frames = &room[..captured.len];
        let is_in = |frame: &PlacedFrame, function: *const ()| matches!(frame.0, Frame::Unknown(address) if (function as u64..function as u64 + 300).contains(&address));
        // The two functions may be close to each other.
        let outer = frames
            .iter()
            .position(|frame| is_in(frame, outer as *const ()))
            .unwrap();
        let inner = frames
            .iter()
            .rposition(|frame| is_in(frame, inner as *const ()))
            .unwrap();
        assert!(outer < inner, "{frames:?}");
        assert_eq!(inner, captured.len - 1, "the capture itself is no frame");
        assert!(
            frames.windows(2).all(|pair| pair[0].1 > pair[1].1),
            "outer frames have higher addresses: {frames:?}"
        );
        assert!(
            !captured.cut && frames.len() > 5,
            "the stack reaches the start of the thread"
        );
        assert_eq!(cut, Some(Captured { len: 2, cut: true }));
        assert_eq!(few[1].0, frames[captured.len - 1].0);
        assert!(is_alone, "a thread without a free cache does not wait");
    }
}
