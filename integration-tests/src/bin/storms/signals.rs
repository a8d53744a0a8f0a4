//! Storms of signals: the program's own use of ours, and handlers on alternate stacks of the least size.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};

use crate::goes_on;

static HEARD: AtomicU64 = AtomicU64::new(0);

extern "C" fn hear(_signal: libc::c_int) {
    HEARD.fetch_add(1, Ordering::Relaxed);
}

/// A handler of the program's own, before the profiler's.
pub(crate) fn take_the_signal_first() {
    // SAFETY: the handler is a static function that only adds to an atomic.
    unsafe { libc::signal(libc::SIGPROF, hear as *const () as usize) };
}

/// Sends itself the signal, and must hear every one of its own and none of ours.
pub(crate) fn own_handler(stop: &AtomicBool) -> Result<()> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        SENT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGPROF) };
    }
    // The other storm may be between sending and hearing.
    let (sent, heard) = (SENT.load(Ordering::Relaxed), HEARD.load(Ordering::Relaxed));
    // One of ours that waits in the thread already takes the place of the program's own.
    ensure!(heard <= sent && heard + 2 + sent / 100 >= sent, "{heard} of {sent} signals were heard");
    Ok(())
}

/// Computes on a thread whose alternate stack is as small as the system allows.
pub(crate) fn small_alternate_stacks(stop: &AtomicBool) -> Result<()> {
    // SAFETY: asks for a number.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) }.max(2048) as usize + 1024;
    let mut memory = vec![0_u8; least];
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: least };
    let mut before = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: the memory stays until the stack before it is put back.
    ensure!(unsafe { libc::sigaltstack(&raw const stack, &raw mut before) } == 0, "no alternate stack");
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
    }
    // SAFETY: what was there before.
    unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
    drop(black_box(memory));
    Ok(())
}
