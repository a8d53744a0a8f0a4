//! Tests of the sampler in programs that use or block its signal.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profiler_core::session;
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{Session, overhead_ns, samples_of, until};

/// The signal with which samples are taken.
const SIGNAL: libc::c_int = libc::SIGURG;

static RAISED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_own(_signal: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// Blocks the signal with which samples are taken.
fn block() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is a live variable, which the call initializes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialized.
    unsafe { libc::sigaddset(set.as_mut_ptr(), SIGNAL) };
    // SAFETY: the set is initialized and lives through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

/// Whether the signal is pending in the calling thread.
fn is_pending() -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is a live variable, which the call writes.
    unsafe { libc::sigpending(set.as_mut_ptr()) };
    // SAFETY: the set is initialized: zeros are a valid set, and the call above wrote it.
    unsafe { libc::sigismember(set.as_ptr(), SIGNAL) == 1 }
}

#[test]
fn a_thread_that_blocks_the_signal_is_not_asked_and_the_others_are() {
    own_process!();
    let _session = Session::start(&[]);
    // The thread that computes inherits the blocked signal, so it never accepts it.
    let deaf = |stop: &AtomicBool| {
        block();
        let compute = || {
            innermost(stop);
            assert!(
                !is_pending(),
                "a signal was left behind in a thread that blocks it"
            );
        };
        std::thread::scope(|scope| scope.spawn(compute).join().unwrap());
        0
    };
    beside("deaf", deaf, |_| {
        beside("hears", innermost, |hears| {
            samples_of(hears, 300);
            until(|| (session::sampling_stats()?.deaf > 0).then_some(()));
            let before = samples_of(hears, 1).len();
            samples_of(hears, before + 300);
        });
    });
}

#[test]
fn a_tick_waits_once_for_all_threads_that_do_not_answer() {
    own_process!();
    const DEAF: usize = 32;
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    let blocks = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop_in_the_end = Stop(&stop);
        for _ in 0..DEAF {
            scope.spawn(|| {
                innermost(&blocks);
                block(); // after the sampler has received answers from it
                innermost(&stop)
            });
        }
        let _block_in_the_end = Stop(&blocks);
        until(|| (session::sampling_stats()?.taken >= 4 * DEAF as u64).then_some(()));
        // In this order, the difference of ticks may be too large, but not too small.
        let ticks_before = session::sampling_stats().unwrap().ticks;
        let before = session::sampling_stats().unwrap();
        blocks.store(true, Ordering::Relaxed);
        until(|| {
            let now = session::sampling_stats()?;
            let missed = now.missed - before.missed;
            let deaf = now.deaf - before.deaf;
            let ticks = session::sampling_stats()?.ticks - ticks_before;
            // Four threads are asked at the same time, and all waits of a tick share one time
            // limit.
            assert!(
                missed <= 4 * (ticks + 1),
                "{missed} missed in {ticks} ticks"
            );
            // A thread that did not answer is inspected before it is asked again.
            (deaf >= DEAF as u64).then_some(())
        });
    });
}

/// The processor time of the sampler's thread so far, in nanoseconds.
fn sampler_cpu_ns() -> u64 {
    let is_sampler = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "profiler-stacks\n")
    };
    let mut tasks = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path());
    let sampler = tasks.find(is_sampler).expect("a sampler");
    let statistics = std::fs::read_to_string(sampler.join("schedstat")).unwrap();
    statistics.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_overhead_is_the_processor_time_of_the_sampler() {
    own_process!();
    let _session = Session::start(&[]);
    let blocks = AtomicBool::new(false);
    let work = |stop: &AtomicBool| {
        innermost(&blocks);
        block(); // after the sampler has received an answer from it
        innermost(stop)
    };
    beside("blocks", work, |_| {
        let _block_in_the_end = Stop(&blocks);
        until(|| (session::sampling_stats()?.taken > 0).then_some(()));
        blocks.store(true, Ordering::Relaxed);
        // A tick waits for an answer to the time limit.
        until(|| (session::sampling_stats()?.missed > 0).then_some(()));
        let ticks = session::sampling_stats().unwrap().ticks;
        until(|| (session::sampling_stats()?.ticks > ticks).then_some(()));
        let overhead = overhead_ns();
        let used = sampler_cpu_ns();
        assert!(
            0 < overhead && overhead <= used,
            "{overhead} of {used} ns of processor time"
        );
    });
}

#[test]
fn signals_of_the_program_do_not_disturb_the_sampler() {
    own_process!();
    let _session = Session::start(&[]);
    beside(
        "raises",
        |stop| {
            while !stop.load(Ordering::Relaxed) {
                // With breaks, because the system keeps only one of two pending signals.
                (0..20_000).for_each(|number| _ = std::hint::black_box(number));
                // SAFETY: the sampler has installed a handler for the signal.
                unsafe { libc::raise(SIGNAL) };
            }
            0
        },
        |raises| {
            samples_of(raises, 100);
        },
    );
}

/// Installs a handler with one argument. Returns the previous action.
fn take_the_signal() -> libc::sigaction {
    // SAFETY: zeros are a valid `sigaction`, without flags.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = own;
    own.sa_sigaction = on_own as *const () as usize;
    // SAFETY: the handler is a static function, and both structures live through the call.
    unsafe { libc::sigaction(SIGNAL, &raw const own, &raw mut before) };
    before
}

#[test]
fn a_program_that_takes_over_the_signal_gets_no_further_signals_of_the_sampler() {
    own_process!();
    let session = Session::start(&[]);
    beside("cruncher", innermost, |thread| {
        samples_of(thread, 20);
        let ours = take_the_signal();
        for _ in 0..100 {
            assert!(session::wait_one_periodic_sampling());
        }
        // Signals may still be pending: at most as many as threads are asked at the same time.
        let raised = RAISED.load(Ordering::Relaxed);
        assert!(raised <= 4, "{raised} signals");
        // SAFETY: restores the action that the system returned; it lives through the call.
        unsafe { libc::sigaction(SIGNAL, &raw const ours, std::ptr::null_mut()) };
    });
    drop(session);
}
