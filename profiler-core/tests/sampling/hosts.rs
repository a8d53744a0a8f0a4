//! Programs with habits: signals of their own, blocked signals, libraries that come and go.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profiler_core::session;

use crate::busy::{Stop, beside, innermost};
use crate::read::{Session, samples_of, until};

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

#[test]
fn a_thread_that_blocks_the_signal_is_missed_and_the_others_are_not() {
    let _session = Session::start(&[]);
    let deaf = |stop: &AtomicBool| {
        block();
        innermost(stop)
    };
    beside("deaf", deaf, |_| {
        beside("hears", innermost, |hears| {
            samples_of(hears, 300);
            until(|| (session::sampling_stats()?.missed > 0).then_some(()));
            let before = samples_of(hears, 1).len();
            samples_of(hears, before + 300);
        });
    });
}

#[test]
fn a_tick_waits_once_for_all_threads_that_do_not_answer() {
    const DEAF: usize = 32;
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop_in_the_end = Stop(&stop);
        for _ in 0..DEAF {
            scope.spawn(|| {
                block();
                innermost(&stop)
            });
        }
        until(|| {
            // In this order: so the ticks may be more than were over then, and not fewer.
            let missed = session::sampling_stats()?.missed;
            let ticks = session::sampling_stats()?.ticks;
            // Four are asked at the same time, and waited for as long as all others together.
            assert!(missed <= 4 * (ticks + 1), "{missed} missed in {ticks} ticks");
            (missed >= DEAF as u64).then_some(())
        });
    });
}

#[test]
fn signals_that_are_not_ours_do_not_disturb_and_do_no_harm() {
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
