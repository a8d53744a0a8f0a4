//! Notes the threads whose alternate signal stack, or whose own stack, is too small for a signal.
//!
//! The system writes the registers of an interrupted thread to its alternate stack, if it has one.
//! With large vector registers that is more than 2,048 bytes, the former constant `MINSIGSTKSZ`,
//! and the overflow ends the process. Only a thread itself can ask the system for its alternate
//! stack. So each thread asks when it joins a session, and threads that must not be signalled are
//! noted here until they end. The sampler checks this before it sends a signal. If a thread has no
//! alternate stack, the registers go to its own stack, of which a signal may come when little is
//! left: a thread with a small stack and no alternate one is noted, too.
//!
//! Invariant: only the thread itself writes and removes its number, except in a forked child, where
//! the thread does not exist.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::machine::own_stack;
use crate::ids::ThreadId;
use crate::sync::fixed::{AtomicU64, Ordering};

/// Maximum number of noted threads. If there are more, no thread is signalled any more.
const MAX: usize = 1024;
/// The smallest stack of a thread without an alternate one that gets signals. A smaller stack was
/// chosen for what the thread does, and may be nearly full at any time.
const LEAST_OWN: u64 = 64 * 1024;
/// The stack that the handler itself needs.
const HANDLER: u64 = 1024;

/// The numbers of the noted threads; 0 for a free place.
static SMALL: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
/// The present number of noted threads, including threads that found no place in [`SMALL`].
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The present number of threads that found no place in [`SMALL`].
static WITHOUT_PLACE: AtomicU64 = AtomicU64::new(0);

/// Maximum size of a signal's frame without the tile registers, in bytes.
const WITHOUT_TILES: u64 = 4096;
/// The size of the tile registers, which are the last ones in a frame.
const TILES: u64 = 8192;
/// The result of [`signal_frame_bytes`]; 0 before.
static FRAME: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the calling thread is counted in [`WITHOUT_PLACE`].
    static IS_WITHOUT_PLACE: Cell<bool> = const { Cell::new(false) };
}

/// The smallest alternate stack that is large enough for a signal.
pub(crate) fn least() -> u64 {
    signal_frame_bytes().saturating_add(HANDLER)
}

/// The bytes that the system puts on a stack to call a signal handler. Determined once, because it
/// may take a system call that a sandbox forbids later; [`prepare`] calls it early.
pub(crate) fn signal_frame_bytes() -> u64 {
    match FRAME.load(Ordering::Relaxed) {
        0 => prepare(),
        known => known,
    }
}

/// Determines the size of a signal's frame.
pub(crate) fn prepare() -> u64 {
    /// The number of the entry, on all architectures. x86-64 has the entry since Linux 5.14.
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: reads a value that was set before the process started; 0 if there is none.
    let reported = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    let frame = frame_bytes(reported, uses_tiles);
    FRAME.store(frame, Ordering::Relaxed);
    frame
}

/// On x86-64 the system reports the size with all registers that a process may request. The tile
/// registers (AMX) take 8 KiB of it, and only in a process that has requested them.
fn frame_bytes(reported: u64, uses_tiles: impl FnOnce() -> bool) -> u64 {
    let reported = reported.max(libc::MINSIGSTKSZ as u64);
    let has_tiles = cfg!(target_arch = "x86_64") && reported > WITHOUT_TILES;
    if has_tiles && !uses_tiles() {
        reported.saturating_sub(TILES).max(libc::MINSIGSTKSZ as u64)
    } else {
        reported
    }
}

/// Whether the process has requested the tile registers.
#[cfg(target_arch = "x86_64")]
fn uses_tiles() -> bool {
    const ARCH_GET_XCOMP_PERM: libc::c_int = 0x1022;
    const TILE_DATA: u64 = 1 << 18;
    let mut permitted = 0_u64;
    // SAFETY: the kernel writes one number through the pointer, which is valid for it.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_GET_XCOMP_PERM,
            &raw mut permitted,
        )
    };
    failed == 0 && permitted & TILE_DATA != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn uses_tiles() -> bool {
    true
}

/// Checks the stacks of the calling thread. Makes a system call.
pub(crate) fn check_own(thread: ThreadId) {
    let is_small = match own() {
        Some(size) => size < least(),
        None => has_small_stack(thread),
    };
    if !is_small {
        return forget_own(thread);
    }
    if IS_WITHOUT_PLACE.get() || is_noted(thread) {
        return;
    }
    COUNT.fetch_add(1, Ordering::Release);
    let is_free = |place: &AtomicU64| {
        place
            .compare_exchange(0, thread.get(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if !SMALL.iter().any(is_free) {
        IS_WITHOUT_PLACE.set(true);
        WITHOUT_PLACE.fetch_add(1, Ordering::Release);
    }
}

/// Called when the calling thread ends, or has a larger stack now.
pub(crate) fn forget_own(thread: ThreadId) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    if IS_WITHOUT_PLACE.replace(false) {
        WITHOUT_PLACE.fetch_sub(1, Ordering::Release);
        COUNT.fetch_sub(1, Ordering::Release);
        return;
    }
    let is_its = |place: &AtomicU64| {
        place
            .compare_exchange(thread.get(), 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if SMALL.iter().any(is_its) {
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// In a forked child that begins anew, whose only thread is the calling one: removes all notes. The
/// calling thread checks its stack again when it joins a session.
pub(crate) fn forget_parent() {
    IS_WITHOUT_PLACE.set(false);
    SMALL
        .iter()
        .for_each(|place| place.store(0, Ordering::Relaxed));
    WITHOUT_PLACE.store(0, Ordering::Relaxed);
    COUNT.store(0, Ordering::Release);
}

/// Whether a signal would overflow a thread's alternate stack, as far as is known.
pub(crate) fn is_small(thread: ThreadId) -> bool {
    COUNT.load(Ordering::Acquire) != 0
        && (WITHOUT_PLACE.load(Ordering::Acquire) != 0 || is_noted(thread))
}

fn is_noted(thread: ThreadId) -> bool {
    SMALL
        .iter()
        .any(|place| place.load(Ordering::Acquire) == thread.get())
}

/// Whether the calling thread's own stack is small. The main thread's is not.
fn has_small_stack(thread: ThreadId) -> bool {
    let is_main = thread.get() == u64::from(std::process::id());
    let is_small = |(lowest, end): (u64, u64)| end.saturating_sub(lowest) < LEAST_OWN;
    !is_main && own_stack().is_some_and(is_small)
}

/// Size of the calling thread's alternate stack, if it has one.
fn own() -> Option<u64> {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: without a new stack the call only writes the present one, into memory of its type.
    let failed = unsafe { libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()) };
    // SAFETY: written by the call; zeroed before it.
    let stack = unsafe { stack.assume_init() };
    (failed == 0 && stack.ss_flags & libc::SS_DISABLE == 0).then_some(stack.ss_size as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::sys;

    #[test]
    fn registers_that_the_process_has_not_requested_need_no_room() {
        let tiles = 11_952; // with AVX-512 and AMX
        let expected = if cfg!(target_arch = "x86_64") {
            3760
        } else {
            tiles
        };
        let least = libc::MINSIGSTKSZ as u64; // 2048 on x86-64, 5120 on aarch64
        assert_eq!(frame_bytes(3632, || true), least.max(3632));
        assert_eq!(frame_bytes(0, || true), least);
        assert_eq!(
            (frame_bytes(tiles, || false), frame_bytes(tiles, || true)),
            (expected, tiles)
        );
    }

    /// While a thread has no place, all threads count as unsafe.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn more_threads_than_there_are_places_are_counted_until_they_end() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = COUNT.load(Ordering::SeqCst);
        let without_place = WITHOUT_PLACE.load(Ordering::SeqCst);
        let on_a_thread_of_its_own = || {
            IS_WITHOUT_PLACE.set(true);
            COUNT.fetch_add(1, Ordering::SeqCst);
            WITHOUT_PLACE.fetch_add(1, Ordering::SeqCst);
            assert!(is_small(ThreadId::new(1)), "no thread is known to be safe");
            forget_own(sys::current_thread_id());
        };
        std::thread::scope(|scope| scope.spawn(on_a_thread_of_its_own).join().unwrap());
        assert_eq!(WITHOUT_PLACE.load(Ordering::SeqCst), without_place);
        assert!(
            COUNT.load(Ordering::SeqCst) <= counted + 1,
            "another test may note a thread"
        );
    }

    #[test]
    fn a_thread_with_an_alternate_stack_of_the_old_size_is_noted_until_it_leaves() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let on_a_thread_of_its_own = || {
            let thread = sys::current_thread_id();
            check_own(thread);
            assert!(
                !is_small(thread),
                "the standard library's own is large enough"
            );
            let mut memory = vec![0_u8; libc::MINSIGSTKSZ];
            let stack = libc::stack_t {
                ss_sp: memory.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: memory.len(),
            };
            let mut before = MaybeUninit::<libc::stack_t>::zeroed();
            // SAFETY: the memory stays valid until the previous stack is restored.
            if unsafe { libc::sigaltstack(&raw const stack, before.as_mut_ptr()) } != 0 {
                return; // the system does not accept so small a stack
            }
            check_own(thread);
            let is_small_now = is_small(thread);
            // SAFETY: restores the previous stack.
            unsafe { libc::sigaltstack(before.as_ptr(), std::ptr::null_mut()) };
            assert!(is_small_now);
            check_own(thread);
            assert!(!is_small(thread));
        };
        std::thread::scope(|scope| scope.spawn(on_a_thread_of_its_own).join().unwrap());
    }
}
