//! Storms of signals: the program's own use of ours, and handlers on alternate stacks of the least size.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use profiler_core::session;

use crate::goes_on;

static HEARD: AtomicU64 = AtomicU64::new(0);

extern "C" fn hear(_signal: libc::c_int) {
    HEARD.fetch_add(1, Ordering::SeqCst);
}

/// A handler of the program's own, before the profiler's.
pub(crate) fn take_the_signal_first() {
    // SAFETY: the handler is a static function that only adds to an atomic.
    unsafe { libc::signal(libc::SIGURG, hear as *const () as usize) };
}

/// Sends itself the signal, and must hear every one of its own. One of ours that waits in the thread already
/// takes the place of the program's own: so it hears ours, too, as soon as it is known to do this.
pub(crate) fn own_handler(stop: &AtomicBool) -> Result<()> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        SENT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGURG) };
    }
    let (before, heard, after) =
        (SENT.load(Ordering::SeqCst), HEARD.load(Ordering::SeqCst), SENT.load(Ordering::SeqCst));
    let stats = session::sampling_stats().context("nothing was sampled")?;
    // Both storms may be between sending and hearing, and may have lost one before it was known.
    ensure!(heard + 4 >= before, "{heard} of {before} signals were heard");
    // Of a sample up to two signals are sent, and some are on their way.
    let ours = 2 * (stats.taken + stats.missed) + 8;
    ensure!(heard <= after + ours, "{heard} heard, {after} sent, {ours} by the sampler");
    Ok(())
}

/// Takes our handler away and puts it back: the signals that are on their way then do nothing.
pub(crate) fn taken_away(stop: &AtomicBool) -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: all zeros are the default action.
        let default: libc::sigaction = unsafe { std::mem::zeroed() };
        let mut ours = default;
        // SAFETY: both live through the call.
        let failed = unsafe { libc::sigaction(libc::SIGURG, &raw const default, &raw mut ours) };
        ensure!(failed == 0, "not taken");
        (0..20_000_u64).for_each(|number| _ = black_box(number));
        // SAFETY: what was there before, as the system gave it.
        ensure!(unsafe { libc::sigaction(libc::SIGURG, &raw const ours, ptr::null_mut()) } == 0, "not back");
        drop(alone);
    }
    Ok(())
}

/// Sends the signal to the process, as the system does when urgent data comes: it is heard, and none of ours.
pub(crate) fn to_the_process(stop: &AtomicBool) -> Result<()> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    let own = std::process::id().cast_signed();
    while goes_on(stop) {
        // Mostly the main thread hears it, and must come to sleep for its part.
        (0..2_000_000_u64).for_each(|number| _ = black_box(number));
        SENT.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(own, libc::SIGURG) };
    }
    let (heard, sent) = (HEARD.load(Ordering::SeqCst), SENT.load(Ordering::SeqCst));
    ensure!(heard > 0 && heard <= sent, "{heard} of {sent} signals were heard");
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
