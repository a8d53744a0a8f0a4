//! Threads at rest: each costs an entry when it falls asleep and one when it wakes, and none in
//! between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

use profiler_core::session;
use test_support::own_process;

use super::busy::beside;
use super::read::{Session, samples, until};

fn ticks() -> u64 {
    session::sampling_stats().unwrap().ticks
}

fn wait_for_ticks(more: u64) {
    let begun = ticks();
    until(|| (ticks() >= begun + more).then_some(()));
}

/// Threads that end when this is dropped, also by a panic.
struct Idle<'a> {
    stop: &'a AtomicBool,
    threads: Vec<Thread>,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(Thread::unpark);
    }
}

#[test]
fn threads_at_rest_are_not_recorded_at_every_tick() {
    own_process!();
    const IDLE: usize = 200;
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rest = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let idle = (0..IDLE).map(|_| scope.spawn(rest).thread().clone()).collect();
        let woken_in_the_end = Idle { stop: &stop, threads: idle };
        until(|| (samples().0.len() >= IDLE).then_some(()));
        wait_for_ticks(500); // each has been asked for its stack by then
        let recorded = || {
            let stats = session::sampling_stats().unwrap();
            stats.taken + stats.peeked + stats.repeated
        };
        let (before, begun) = (recorded(), ticks());
        wait_for_ticks(1000);
        let (entries, passed) = (recorded() - before, ticks() - begun);
        // One per second for each, and this thread and the test's own thread, which read the clock
        // from time to time.
        let most = IDLE as u64 * (passed / 1000 + 1) + 2 * passed;
        assert!(entries <= most, "{entries} entries in {passed} ticks");
        drop(woken_in_the_end);
    });
}

#[test]
fn a_thread_at_rest_is_shown_for_all_the_ticks_of_its_rest() {
    own_process!();
    let _session = Session::start(&[]);
    let rests = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_secs(3)); // not woken: the test's end waits for it
        }
        0
    };
    beside("rests", rests, |thread| {
        until(|| samples().0.contains_key(&thread.get()).then_some(()));
        let shown = || samples().0[&thread.get()].iter().map(|sample| sample.ticks).sum::<u64>();
        assert!(session::wait_one_periodic_sampling());
        let (before, begun) = (shown(), ticks());
        wait_for_ticks(300);
        // A thread that waits for a tick then finds all rests recorded up to it.
        assert!(session::wait_one_periodic_sampling());
        let (after, passed) = (shown(), ticks() - begun);
        assert!(after >= before + passed * 9 / 10, "{} of {passed} ticks", after - before);
        let samples = samples().0[&thread.get()].len() as u64;
        assert!(samples < passed / 4, "{samples} samples in {passed} ticks");
    });
}

/// With more threads at rest than are looked at in a tick, most looks find that the thread woke
/// since the look before.
#[test]
fn threads_that_wake_between_two_looks_are_shown_for_their_rests_too() {
    own_process!();
    const IDLE: usize = 500;
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rest = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let idle: Vec<_> = (0..IDLE).map(|_| scope.spawn(rest).thread().clone()).collect();
        let idle = Idle { stop: &stop, threads: idle };
        until(|| (samples().0.len() >= IDLE).then_some(()));
        wait_for_ticks(200);
        let shown = || {
            assert!(session::wait_one_periodic_sampling());
            samples().0.values().flatten().map(|sample| sample.ticks).sum::<u64>()
        };
        let (before, begun) = (shown(), ticks());
        for _ in 0..20 {
            wait_for_ticks(20);
            idle.threads.iter().for_each(Thread::unpark);
        }
        let (passed, after) = (ticks() - begun, shown());
        let due = passed * IDLE as u64;
        assert!(after - before >= due * 7 / 10, "{} of {due} ticks of threads", after - before);
        drop(idle);
    });
}

#[test]
fn a_pause_drops_no_rest() {
    own_process!();
    const IDLE: usize = 50;
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rest = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let idle = (0..IDLE).map(|_| scope.spawn(rest).thread().clone()).collect();
        let idle = Idle { stop: &stop, threads: idle };
        until(|| (samples().0.len() >= IDLE).then_some(()));
        wait_for_ticks(200);
        let dropped = || samples().1.counts().dropped.total();
        let before = dropped();
        for _ in 0..5 {
            wait_for_ticks(20);
            session::pause();
            std::thread::sleep(std::time::Duration::from_millis(20)); // the sampler's turn
            session::resume();
        }
        wait_for_ticks(20);
        let after = dropped();
        assert!(after < before + IDLE as u64, "{} entries dropped", after - before);
        drop(idle);
    });
}
