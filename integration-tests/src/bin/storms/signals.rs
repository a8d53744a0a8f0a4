//! Storms of signals: the program's own use of ours, and handlers on alternate stacks of the least size.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::patience::LONG;
use profiler_core::session;

use crate::goes_on;

static HEARD: AtomicU64 = AtomicU64::new(0);
/// Of them those that were sent to the process.
static HEARD_BY_PROCESS: AtomicU64 = AtomicU64::new(0);
/// Signals that came while our handler was away.
static STRAY: AtomicU64 = AtomicU64::new(0);

extern "C" fn hear(_signal: libc::c_int) {
    HEARD.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn hear_from_whom(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HEARD.fetch_add(1, Ordering::SeqCst);
    // SAFETY: what the kernel gave a handler, or the profiler in its place.
    if unsafe { (*info).si_code } == libc::SI_USER {
        HEARD_BY_PROCESS.fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn hear_stray(_signal: libc::c_int) {
    STRAY.fetch_add(1, Ordering::SeqCst);
}

/// Puts a handler in place; gives back what was there.
fn take_the_signal(handler: usize, flags: libc::c_int) -> libc::sigaction {
    // SAFETY: all zeros are an action without flags.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = own;
    (own.sa_sigaction, own.sa_flags) = (handler, flags | libc::SA_RESTART | libc::SA_ONSTACK);
    // SAFETY: the handlers here are static functions that only add to atomics; both structures live through the call.
    unsafe { libc::sigaction(libc::SIGURG, &raw const own, &raw mut before) };
    before
}

/// A handler of the program's own, before the profiler's.
pub(crate) fn take_the_signal_first(storm: &str) {
    match storm {
        "signals" => take_the_signal(hear as *const () as usize, 0),
        "urgent" => take_the_signal(hear_from_whom as *const () as usize, libc::SA_SIGINFO),
        _ => return,
    };
}

/// Sends the calling thread the signal with a word, as `pthread_sigqueue` does.
fn queue_to_own_thread() {
    let (pid, mut info) = (std::process::id(), [0_u64; 16]);
    // Signal, error, code, sender, its user, a word that is none of the profiler's.
    info[0] = libc::SIGURG as u64;
    info[1] = u64::from(libc::SI_QUEUE.cast_unsigned());
    (info[2], info[3]) = (u64::from(pid), 42);
    let tid = profiler_core::thread::current().get();
    // SAFETY: the signal has a handler; the kernel reads 128 bytes of `info`, which is as long.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, libc::SIGURG, info.as_ptr()) };
}

/// Sends itself the signal, and must hear every one of its own, from the first on: one of ours that waits in the thread
/// already takes the place of the program's own. So it hears ours, too.
pub(crate) fn own_handler(stop: &AtomicBool) -> Result<()> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        if SENT.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            // SAFETY: the signal has a handler.
            unsafe { libc::raise(libc::SIGURG) };
        } else {
            queue_to_own_thread();
        }
    }
    let (before, heard, after) =
        (SENT.load(Ordering::SeqCst), HEARD.load(Ordering::SeqCst), SENT.load(Ordering::SeqCst));
    let stats = session::sampling_stats().context("nothing was sampled")?;
    // The other storm may be between sending and hearing.
    ensure!(heard + 1 >= before, "{heard} of {before} signals were heard");
    ensure!(heard <= after + ours(stats), "{heard} heard, {after} sent, {stats:?}");
    Ok(())
}

/// Of a sample up to two signals are sent, and some are on their way.
const fn ours(stats: profiler_core::sampler::SamplingStats) -> u64 {
    2 * (stats.taken + stats.missed) + 8
}

/// Takes our handler away and puts it back: nothing is sent meanwhile, but what is on its way.
pub(crate) fn taken_away(stop: &AtomicBool) -> Result<()> {
    static ONE: Mutex<u64> = Mutex::new(0);
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        let mut alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        *alone += 1;
        let heard = STRAY.load(Ordering::SeqCst);
        let ours = take_the_signal(hear_stray as *const () as usize, 0);
        (0..20_000_u64).for_each(|number| _ = black_box(number));
        let is_long = alone.is_multiple_of(512);
        if is_long {
            compute_for_ticks(30)?; // of each of which a sampler that does not look would send some
        }
        // SAFETY: what was there before, as the system gave it.
        ensure!(unsafe { libc::sigaction(libc::SIGURG, &raw const ours, ptr::null_mut()) } == 0, "not back");
        // One may wait in each of the three threads, and one have been about to be sent.
        let stray = STRAY.load(Ordering::SeqCst) - heard;
        ensure!(stray <= 4, "{stray} signals to a handler that was not ours");
        drop(alone);
    }
    // A thread whose signals went to the other handler counts as missed, and is left alone for a while.
    let ends = Instant::now() + LONG;
    while session::sampling_stats().is_some_and(|stats| stats.taken == 0) && Instant::now() < ends {
        compute_for_ticks(10)?;
    }
    Ok(())
}

/// Computes while the sampler makes so many ticks, at most for a second.
fn compute_for_ticks(ticks: u64) -> Result<()> {
    let now = || session::sampling_stats().map(|stats| stats.ticks).context("nothing is sampled");
    let (until, ends) = (now()? + ticks, Instant::now() + Duration::from_secs(1));
    while now()? < until && Instant::now() < ends {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
    }
    Ok(())
}

/// Sends the signal to the process, as the system does when urgent data comes: every one is heard as what it is.
pub(crate) fn to_the_process(stop: &AtomicBool) -> Result<()> {
    static SENT: Mutex<u64> = Mutex::new(0);
    let own = std::process::id().cast_signed();
    while goes_on(stop) {
        // Mostly the main thread hears it, and must come to sleep for its part.
        (0..2_000_000_u64).for_each(|number| _ = black_box(number));
        // One after the other: two that wait for the process are one.
        let mut sent = SENT.lock().unwrap_or_else(PoisonError::into_inner);
        *sent += 1;
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(own, libc::SIGURG) };
        let ends = Instant::now() + LONG;
        while HEARD_BY_PROCESS.load(Ordering::SeqCst) < *sent {
            ensure!(Instant::now() < ends, "signal {sent} is not heard");
            std::thread::sleep(Duration::from_micros(100));
        }
        let (heard, all) = (HEARD_BY_PROCESS.load(Ordering::SeqCst), HEARD.load(Ordering::SeqCst));
        let stats = session::sampling_stats().context("nothing was sampled")?;
        ensure!(heard == *sent, "{heard} of {sent} signals were heard");
        ensure!(all <= *sent + ours(stats), "{all} heard, {sent} sent, {stats:?}");
    }
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

/// Computes on a thread whose alternate stack has the former constant size `MINSIGSTKSZ`, which is
/// too small for the registers of processors with large vectors. The thread has it when it first
/// records.
pub(crate) fn too_small_alternate_stacks(stop: &AtomicBool) -> Result<()> {
    let cramped = || -> Result<()> {
        let mut memory = vec![0_u8; libc::MINSIGSTKSZ];
        let size = memory.len();
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: size };
        let mut before = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: the memory stays valid until the previous stack is restored.
        let is_taken = unsafe { libc::sigaltstack(&raw const stack, &raw mut before) } == 0;
        profiler_core::marker!("cramped");
        while goes_on(stop) && is_taken {
            (0..50_000_u64).for_each(|number| _ = black_box(number));
        }
        if is_taken {
            says_that_stacks_are_missing()?;
            // SAFETY: restores the previous stack.
            unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
        }
        drop(black_box(memory));
        Ok(())
    };
    std::thread::scope(|scope| {
        let cramped = scope.spawn(cramped);
        // A second thread that can be signalled.
        while goes_on(stop) {
            (0..50_000_u64).for_each(|number| _ = black_box(number));
        }
        cramped.join().map_err(|_| anyhow::anyhow!("the thread has panicked"))?
    })
}

fn says_that_stacks_are_missing() -> Result<()> {
    let file = session::pool_file().context("no pool")?;
    let snapshot = profiler_core::internal::reader::PoolReader::open(file)?.snapshot()?;
    let notices = snapshot.definitions.notices();
    ensure!(notices.iter().any(|notice| notice.contains("alternate signal stack")), "{notices:?}");
    Ok(())
}
