//! Threads whose alternate signal stack is too small for a signal.
//!
//! The system writes the registers of an interrupted thread to its alternate stack, if it has one.
//! With large vector registers that is more than 2,048 bytes, the former constant `MINSIGSTKSZ`,
//! and the overflow ends the process. Only a thread itself can ask the system for its alternate
//! stack. So each thread asks when it joins a session, and threads that must not be signalled are
//! noted here until they leave it. The sampler checks this before it sends a signal.
//!
//! Invariant: only the thread itself writes and removes its number.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use crate::ids::ThreadId;
use crate::sync::fixed::{AtomicU64, Ordering};

/// The largest number of such threads that are noted. If there are more, no thread is signalled any
/// more.
const MOST: usize = 256;
/// The stack that the handler itself needs.
const HANDLER: u64 = 1024;

static SMALL: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// The present number of such threads, including those that found no place.
static COUNT: AtomicU64 = AtomicU64::new(0);
static WITHOUT_PLACE: AtomicU64 = AtomicU64::new(0);

/// The smallest alternate stack that is large enough for a signal.
pub(crate) fn least() -> u64 {
    // SAFETY: asks for a number; 0 if the kernel does not provide it.
    let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    frame.max(libc::MINSIGSTKSZ as u64).saturating_add(HANDLER)
}

/// Checks the calling thread's alternate stack. Makes a system call.
pub(crate) fn look_at_own(thread: ThreadId) {
    let is_small = own().is_some_and(|size| size < least());
    if !is_small {
        return forget_own(thread);
    }
    if is_noted(thread) {
        return;
    }
    COUNT.fetch_add(1, Ordering::Release);
    let is_free = |place: &AtomicU64| {
        place.compare_exchange(0, thread.get(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    if !SMALL.iter().any(is_free) {
        WITHOUT_PLACE.fetch_add(1, Ordering::Release);
    }
}

/// The calling thread leaves the session, or has a larger stack now.
pub(crate) fn forget_own(thread: ThreadId) {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let is_its = |place: &AtomicU64| {
        place.compare_exchange(thread.get(), 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    if SMALL.iter().any(is_its) {
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// Whether a signal would overflow a thread's alternate stack, as far as is known.
pub(crate) fn is_small(thread: ThreadId) -> bool {
    COUNT.load(Ordering::Acquire) != 0 && (WITHOUT_PLACE.load(Ordering::Acquire) != 0 || is_noted(thread))
}

fn is_noted(thread: ThreadId) -> bool {
    SMALL.iter().any(|place| place.load(Ordering::Acquire) == thread.get())
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
    use super::*;
    use crate::sys;

    #[test]
    fn a_thread_with_an_alternate_stack_of_the_old_size_is_noted_until_it_leaves() {
        let on_a_thread_of_its_own = || {
            let thread = sys::current_thread_id();
            look_at_own(thread);
            assert!(!is_small(thread), "the standard library's own is large enough");
            let mut memory = vec![0_u8; libc::MINSIGSTKSZ];
            let stack =
                libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
            let mut before = MaybeUninit::<libc::stack_t>::zeroed();
            // SAFETY: the memory stays valid until the previous stack is restored.
            if unsafe { libc::sigaltstack(&raw const stack, before.as_mut_ptr()) } != 0 {
                return; // the system does not accept so small a stack
            }
            look_at_own(thread);
            let is_small_now = is_small(thread);
            // SAFETY: restores the previous stack.
            unsafe { libc::sigaltstack(before.as_ptr(), std::ptr::null_mut()) };
            assert!(is_small_now);
            look_at_own(thread);
            assert!(!is_small(thread));
        };
        std::thread::scope(|scope| scope.spawn(on_a_thread_of_its_own).join().unwrap());
    }
}
