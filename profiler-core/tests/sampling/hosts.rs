//! Programs with habits: signals of their own, blocked signals, libraries that come and go.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profiler_core::session;
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{Session, samples_of, until};

/// The signal that samples are taken with.
const SIGNAL: libc::c_int = libc::SIGURG;

static RAISED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_own(_signal: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// Blocks the signal that samples are taken with.
fn block() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(set.as_mut_ptr(), SIGNAL) };
    // SAFETY: the set is initialised and lives through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

/// Whether one waits in the calling thread.
fn is_pending() -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: writes the set.
    unsafe { libc::sigpending(set.as_mut_ptr()) };
    // SAFETY: all zeros are a set, and the call wrote one.
    unsafe { libc::sigismember(set.as_ptr(), SIGNAL) == 1 }
}

#[test]
fn a_thread_that_blocks_the_signal_is_not_asked_and_the_others_are() {
    own_process!();
    let _session = Session::start(&[]);
    // Blocked in whoever starts it, so that it never was anything but deaf.
    let deaf = |stop: &AtomicBool| {
        block();
        let compute = || {
            innermost(stop);
            assert!(!is_pending(), "a signal was left behind in a thread that blocks it");
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
    let (stop, blocks) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop_in_the_end = Stop(&stop);
        for _ in 0..DEAF {
            scope.spawn(|| {
                innermost(&blocks);
                block(); // after it was found to hear
                innermost(&stop)
            });
        }
        let _block_in_the_end = Stop(&blocks);
        until(|| (session::sampling_stats()?.taken >= 4 * DEAF as u64).then_some(()));
        // In this order: so the ticks between may be more than were over then, and not fewer.
        let ticks_before = session::sampling_stats().unwrap().ticks;
        let before = session::sampling_stats().unwrap();
        blocks.store(true, Ordering::Relaxed);
        until(|| {
            let now = session::sampling_stats()?;
            let (missed, deaf) = (now.missed - before.missed, now.deaf - before.deaf);
            let ticks = session::sampling_stats()?.ticks - ticks_before;
            // Four are asked at the same time, and waited for as long as all others together.
            assert!(missed <= 4 * (ticks + 1), "{missed} missed in {ticks} ticks");
            // Whoever was missed is looked at before it is asked once more.
            (deaf >= DEAF as u64).then_some(())
        });
    });
}

#[test]
fn signals_that_are_not_ours_do_not_disturb_and_do_no_harm() {
    own_process!();
    let _session = Session::start(&[]);
    beside(
        "raises",
        |stop| {
            while !stop.load(Ordering::Relaxed) {
                // Not without a break: of two signals that wait in a thread the system keeps one.
                (0..20_000).for_each(|number| _ = std::hint::black_box(number));
                // SAFETY: the signal has a handler, ours.
                unsafe { libc::raise(SIGNAL) };
            }
            0
        },
        |raises| {
            samples_of(raises, 100);
        },
    );
}

/// Puts a handler of one argument in place; gives back what was there.
fn take_the_signal() -> libc::sigaction {
    // SAFETY: all zeros are a sigaction without flags.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    let mut before = own;
    own.sa_sigaction = on_own as *const () as usize;
    // SAFETY: the handler is a static function, and both structures live through the call.
    unsafe { libc::sigaction(SIGNAL, &raw const own, &raw mut before) };
    before
}

#[test]
fn whoever_takes_the_signal_gets_no_more_of_ours() {
    own_process!();
    let session = Session::start(&[]);
    beside("cruncher", innermost, |thread| {
        samples_of(thread, 20);
        let ours = take_the_signal();
        for _ in 0..100 {
            assert!(session::wait_one_periodic_sampling());
        }
        // Some may have been on their way, however long that takes them: no more than are asked at the same time.
        let raised = RAISED.load(Ordering::Relaxed);
        assert!(raised <= 4, "{raised} signals");
        // SAFETY: what was there before, as the system gave it.
        unsafe { libc::sigaction(SIGNAL, &raw const ours, std::ptr::null_mut()) };
    });
    drop(session);
}
