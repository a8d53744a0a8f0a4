//! Storms of signals: the program uses the signal of the sampler itself, or handles signals on
//! alternate stacks of the smallest size.

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

/// Signals that the program's handler received.
static HEARD: AtomicU64 = AtomicU64::new(0);
/// Of these, signals that were sent to the process.
static HEARD_BY_PROCESS: AtomicU64 = AtomicU64::new(0);
/// Signals that arrived while the sampler's handler was replaced.
static STRAY: AtomicU64 = AtomicU64::new(0);

extern "C" fn hear(_signal: libc::c_int) {
    HEARD.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn hear_with_info(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HEARD.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the kernel passes a valid structure to a handler, and the profiler's handler passes
    // it on.
    if unsafe { (*info).si_code } == libc::SI_USER {
        HEARD_BY_PROCESS.fetch_add(1, Ordering::SeqCst);
    }
}

extern "C" fn hear_stray(_signal: libc::c_int) {
    STRAY.fetch_add(1, Ordering::SeqCst);
}

/// Installs a handler, and returns the previous action.
fn take_the_signal(handler: usize, flags: libc::c_int) -> libc::sigaction {
    // SAFETY: all zeros are an action without flags.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = own;
    (own.sa_sigaction, own.sa_flags) = (handler, flags | libc::SA_RESTART | libc::SA_ONSTACK);
    // SAFETY: the handlers here are static functions that only add to atomics. Both structures live
    // through the call.
    unsafe { libc::sigaction(libc::SIGURG, &raw const own, &raw mut before) };
    before
}

/// Installs the program's own handler before the profiler's, for the storms that need it.
pub(crate) fn take_the_signal_first(storm: &str) {
    match storm {
        "signals" => take_the_signal(hear as *const () as usize, 0),
        "urgent" => take_the_signal(hear_with_info as *const () as usize, libc::SA_SIGINFO),
        _ => return,
    };
}

/// Sends the signal with a value to the calling thread, as `pthread_sigqueue` does.
fn queue_to_own_thread() {
    let pid = std::process::id();
    let mut info = [0_u64; 16];
    // Signal, error, code, sender, user of the sender, and a value that the profiler does not use.
    info[0] = libc::SIGURG as u64;
    info[1] = u64::from(libc::SI_QUEUE.cast_unsigned());
    (info[2], info[3]) = (u64::from(pid), 42);
    let tid = profiler_core::thread::current().get();
    // SAFETY: the signal has a handler. The kernel reads 128 bytes of `info`, which is as long.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            pid,
            tid,
            libc::SIGURG,
            info.as_ptr(),
        )
    };
}

/// Sends itself the signal. The program's handler must receive each of these signals, from the
/// first one on. A pending signal of the sampler merges with one of the program's, so the profiler
/// also passes the sampler's signals to the program's handler.
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
    let before = SENT.load(Ordering::SeqCst);
    let heard = HEARD.load(Ordering::SeqCst);
    let after = SENT.load(Ordering::SeqCst);
    let stats = stats_after_a_tick()?;
    // The other thread may have counted a signal that is not handled yet.
    ensure!(heard + 1 >= before, "{heard} of {before} signals arrived");
    ensure!(
        heard <= after + sent_by_sampler(stats),
        "{heard} arrived, {after} sent, {stats:?}"
    );
    Ok(())
}

/// Returns the highest number of signals that the sampler can have sent: two for each sample, and a
/// few for samples that are not finished.
const fn sent_by_sampler(stats: profiler_core::sampler::SamplingStats) -> u64 {
    2 * (stats.taken + stats.missed) + 8
}

/// Returns the sampler's counts, which contain the samples of all signals that have arrived: the
/// sampler counts a sample when it reads it, at its next tick.
fn stats_after_a_tick() -> Result<profiler_core::sampler::SamplingStats> {
    session::wait_one_periodic_sampling();
    session::sampling_stats().context("nothing was sampled")
}

/// Replaces the profiler's handler and restores it. Once the sampler has made a pass, it and its
/// timers send no signals meanwhile; only those that were sent before can arrive.
pub(crate) fn taken_away(stop: &AtomicBool) -> Result<()> {
    static ROUNDS: Mutex<u64> = Mutex::new(0);
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
        let mut rounds = ROUNDS.lock().unwrap_or_else(PoisonError::into_inner);
        *rounds += 1;
        let previous = take_the_signal(hear_stray as *const () as usize, 0);
        (0..20_000_u64).for_each(|number| _ = black_box(number));
        let is_long = rounds.is_multiple_of(512);
        let mut stray = 0;
        if is_long && session::wait_one_periodic_sampling() {
            let heard = STRAY.load(Ordering::SeqCst);
            // A sampler that ignored the replaced handler would send signals in each tick.
            compute_for_ticks(30)?;
            stray = STRAY.load(Ordering::SeqCst) - heard;
        }
        // SAFETY: restores the previous action, as the system has returned it.
        let result = unsafe { libc::sigaction(libc::SIGURG, &raw const previous, ptr::null_mut()) };
        ensure!(result == 0, "the handler was not restored");
        // One signal may be pending in each of the three threads, and the sampler may have been
        // about to send one.
        ensure!(stray <= 4, "{stray} signals while the handler was replaced");
        if is_long {
            compute_for_ticks(30)?; // with the profiler's handler: samples are taken again
        }
        drop(rounds);
    }
    // A thread whose signals went to the other handler is counted as missed, and is not signalled
    // for a while.
    let ends = Instant::now() + LONG;
    while session::sampling_stats().is_some_and(|stats| stats.taken == 0) && Instant::now() < ends {
        compute_for_ticks(10)?;
    }
    Ok(())
}

/// Computes until the sampler has made `ticks` ticks, at most for one second.
fn compute_for_ticks(ticks: u64) -> Result<()> {
    let now = || {
        session::sampling_stats()
            .map(|stats| stats.ticks)
            .context("nothing is sampled")
    };
    let until = now()? + ticks;
    let ends = Instant::now() + Duration::from_secs(1);
    while now()? < until && Instant::now() < ends {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
    }
    Ok(())
}

/// Sends the signal to the process, as the system does when urgent data arrives. The program's
/// handler must receive each of these signals as a signal to the process.
pub(crate) fn to_the_process(stop: &AtomicBool) -> Result<()> {
    static SENT: Mutex<u64> = Mutex::new(0);
    let own = std::process::id().cast_signed();
    while goes_on(stop) {
        // The main thread receives most of these signals, and needs time to return to its sleep.
        (0..2_000_000_u64).for_each(|number| _ = black_box(number));
        // One signal at a time, because two that are pending for the process merge.
        let mut sent = SENT.lock().unwrap_or_else(PoisonError::into_inner);
        *sent += 1;
        // SAFETY: the signal has a handler.
        unsafe { libc::kill(own, libc::SIGURG) };
        let ends = Instant::now() + LONG;
        while HEARD_BY_PROCESS.load(Ordering::SeqCst) < *sent {
            ensure!(Instant::now() < ends, "signal {sent} does not arrive");
            std::thread::sleep(Duration::from_micros(100));
        }
        let heard = HEARD_BY_PROCESS.load(Ordering::SeqCst);
        let all = HEARD.load(Ordering::SeqCst);
        ensure!(heard == *sent, "{heard} of {sent} signals arrived");
        let mut stats = session::sampling_stats().context("nothing was sampled")?;
        if all > *sent + sent_by_sampler(stats) {
            stats = stats_after_a_tick()?;
        }
        ensure!(
            all <= *sent + sent_by_sampler(stats),
            "{all} arrived, {sent} sent, {stats:?}"
        );
    }
    Ok(())
}

/// Computes on a thread whose alternate stack is as small as the system allows.
pub(crate) fn small_alternate_stacks(stop: &AtomicBool) -> Result<()> {
    // SAFETY: takes and returns a number.
    let least = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) }.max(2048) as usize + 1024;
    let mut memory = vec![0_u8; least];
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: least,
    };
    let mut before = libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: the memory stays valid until the previous stack is restored.
    let result = unsafe { libc::sigaltstack(&raw const stack, &raw mut before) };
    ensure!(result == 0, "no alternate stack");
    while goes_on(stop) {
        (0..50_000_u64).for_each(|number| _ = black_box(number));
    }
    // SAFETY: restores the previous stack.
    unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
    drop(black_box(memory));
    Ok(())
}

/// Computes on a thread whose alternate stack has the former constant size `MINSIGSTKSZ`, which is
/// too small for the registers of processors with large vectors. The thread already has it when it
/// first records.
pub(crate) fn too_small_alternate_stacks(stop: &AtomicBool) -> Result<()> {
    let cramped = || -> Result<()> {
        let mut memory = vec![0_u8; libc::MINSIGSTKSZ];
        let size = memory.len();
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: size,
        };
        let mut before = libc::stack_t {
            ss_sp: std::ptr::null_mut(),
            ss_flags: 0,
            ss_size: 0,
        };
        // SAFETY: the memory stays valid until the previous stack is restored.
        let is_taken = unsafe { libc::sigaltstack(&raw const stack, &raw mut before) } == 0;
        profiler_core::marker!("cramped");
        while goes_on(stop) && is_taken {
            (0..50_000_u64).for_each(|number| _ = black_box(number));
        }
        if is_taken {
            check_notice()?;
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
        cramped
            .join()
            .map_err(|_| anyhow::anyhow!("the thread has panicked"))?
    })
}

/// Checks that a notice in the pool reports the missing stacks.
fn check_notice() -> Result<()> {
    let file = session::pool_file().context("no pool")?;
    let snapshot = profiler_core::internal::reader::PoolReader::open(file)?.snapshot()?;
    let notices = snapshot.definitions.notices();
    ensure!(
        notices
            .iter()
            .any(|notice| notice.contains("alternate signal stack")),
        "{notices:?}"
    );
    Ok(())
}
