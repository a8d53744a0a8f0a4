//! Storms on stacks of which so little is left that a signal does not fit: the smallest stacks of
//! threads.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

use crate::goes_on;

/// At least as large as a page on any system.
const GUARD: usize = 64 * 1024;
/// The bytes that a thread leaves of its stack: less than a signal's frame.
const LEFT: usize = 1200;
/// The smallest stack of a thread on x86-64.
const SMALLEST: usize = 16 * 1024;

thread_local! {
    /// The lowest address of the stack that the thread fills.
    static LOWEST: Cell<usize> = const { Cell::new(0) };
}

/// Goes down the stack until little is left, and computes there.
#[inline(never)]
fn descend(lowest: usize) {
    let here = black_box([0_u8; 64]);
    if here.as_ptr().addr() - lowest > LEFT {
        descend(lowest);
    } else {
        (0..300_000_u64).for_each(|number| _ = black_box(number));
    }
    black_box(&here);
}

/// Memory with a guard page below it. It is never unmapped: the process ends with the storm.
fn guarded_memory(bytes: usize) -> Result<*mut c_void> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let memory =
        unsafe { libc::mmap(ptr::null_mut(), bytes + GUARD, libc::PROT_NONE, kind, -1, 0) };
    ensure!(memory != libc::MAP_FAILED, "no memory");
    let usable = memory.wrapping_byte_add(GUARD);
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the upper part of the mapping, which is not in use yet.
    let failed = unsafe { libc::mprotect(usable, bytes, rights) };
    ensure!(failed == 0, "no memory");
    Ok(usable)
}

/// Runs a thread that fills the smallest stack, and computes beside it.
pub(crate) fn on_small_stacks(stop: &AtomicBool) -> Result<()> {
    let memory = guarded_memory(SMALLEST)?;
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes.
    let failed = unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
    ensure!(failed == 0, "no attributes");
    // SAFETY: initialised above. The memory stays mapped until the process ends.
    let failed = unsafe { libc::pthread_attr_setstack(attributes.as_mut_ptr(), memory, SMALLEST) };
    ensure!(failed == 0, "the stack is refused");
    let work = Box::into_raw(Box::new((memory.addr(), ptr::from_ref(stop)))).cast();
    let mut thread = 0;
    // SAFETY: the thread gets its own `work`, and is joined before the flag in it is dropped.
    let failed =
        unsafe { libc::pthread_create(&raw mut thread, attributes.as_ptr(), fill_own_stack, work) };
    ensure!(failed == 0, "no thread");
    while goes_on(stop) {
        (0..300_000_u64).for_each(|number| _ = black_box(number)); // can be signalled
    }
    // SAFETY: started above and joined once.
    let failed = unsafe { libc::pthread_join(thread, ptr::null_mut()) };
    (failed == 0)
        .then_some(())
        .context("the thread cannot be joined")
}

extern "C" fn fill_own_stack(work: *mut c_void) -> *mut c_void {
    // SAFETY: made by `Box::into_raw`, for this thread only.
    let (lowest, stop) = *unsafe { Box::from_raw(work.cast::<(usize, *const AtomicBool)>()) };
    profiler_core::marker!("small");
    // SAFETY: `on_small_stacks` joins the thread before the flag is dropped.
    while !unsafe { &*stop }.load(Ordering::Relaxed) {
        descend(lowest);
    }
    ptr::null_mut()
}
