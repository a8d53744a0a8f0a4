//! Tests of threads that wait for a long time: each needs an entry when it falls asleep and one
//! when it wakes, and none in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use profiler_core::{session, thread};
use test_support::own_process;

use super::busy::beside;
use super::read::{Seen, Session, samples, ticks_of, until, wait_for_ticks, wait_one_pass};

fn ticks() -> u64 {
    session::sampling_stats().unwrap().ticks
}

/// Waiting threads, which end when this is dropped, also if a test panics.
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

/// Starts a session and `count` threads that wait, and calls `test` once all of them are sampled.
fn among_idle(count: usize, test: impl FnOnce(&[Thread])) {
    let _session = Session::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rest = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let threads = (0..count).map(|_| scope.spawn(rest).thread().clone());
        let idle = Idle {
            stop: &stop,
            threads: threads.collect(),
        };
        until(|| (samples().0.len() >= count).then_some(()));
        test(&idle.threads);
    });
}

#[test]
fn resting_threads_are_not_recorded_at_every_tick() {
    own_process!();
    const IDLE: usize = 200;
    among_idle(IDLE, |_| {
        wait_for_ticks(500); // by then the sampler has the stack of each thread
        let recorded = || {
            let stats = session::sampling_stats().unwrap();
            stats.taken + stats.peeked + stats.repeated
        };
        let before = recorded();
        let begun = ticks();
        wait_for_ticks(1000);
        let entries = recorded() - before;
        let passed = ticks() - begun;
        // Each idle thread may still get one entry, for its last run. The other entries are of this
        // thread and of the main thread of the test, which run from time to time.
        let maximum = IDLE as u64 + passed;
        assert!(entries <= maximum, "{entries} entries in {passed} ticks");
    });
}

#[test]
fn a_resting_thread_is_shown_for_all_ticks_of_its_rest() {
    own_process!();
    let _session = Session::start(&[]);
    let rests = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            // The thread is not woken, so the end of the test waits for it.
            std::thread::sleep(Duration::from_secs(3));
        }
        0
    };
    beside("rests", rests, |thread| {
        until(|| samples().0.contains_key(&thread.get()).then_some(()));
        let shown = || {
            samples().0[&thread.get()]
                .iter()
                .map(|sample| sample.ticks)
                .sum::<u64>()
        };
        wait_one_pass();
        let before = shown();
        let begun = ticks();
        wait_for_ticks(300);
        let passed = ticks() - begun;
        // After this wait, the rests of all threads are recorded up to the present tick.
        wait_one_pass();
        let after = shown();
        assert!(
            after >= before + passed * 9 / 10,
            "{} of {passed} ticks",
            after - before
        );
        let samples = samples().0[&thread.get()].len() as u64;
        assert!(samples < passed / 4, "{samples} samples in {passed} ticks");
    });
}

/// If the wait were not closed, a profile would show that the thread waits until the end of the
/// recording.
#[test]
fn the_wait_of_a_thread_that_has_ended_is_closed() {
    own_process!();
    let _session = Session::start(&[]);
    let last_waits = |thread| {
        let samples = samples().0;
        samples.get(&thread).and_then(|all| Some(all.last()?.waits))
    };
    for _ in 0..5 {
        let (tell, told) = std::sync::mpsc::channel();
        let rests = std::thread::spawn(move || {
            thread::register("rests");
            tell.send(thread::current().get()).unwrap();
            std::thread::park();
        });
        let thread = told.recv().unwrap();
        until(|| (last_waits(thread) == Some(true)).then_some(()));
        rests.thread().unpark();
        rests.join().unwrap();
        until(|| (last_waits(thread) == Some(false)).then_some(()));
    }
}

/// With more resting threads than the sampler checks in one tick, most checks find that the thread
/// has woken since the previous check.
#[test]
fn threads_that_wake_between_two_checks_are_also_shown_for_their_rests() {
    own_process!();
    const IDLE: usize = 500;
    among_idle(IDLE, |threads| {
        wait_for_ticks(200);
        let shown = || {
            wait_one_pass();
            samples()
                .0
                .values()
                .flatten()
                .map(|sample| sample.ticks)
                .sum::<u64>()
        };
        let before = shown();
        let begun = ticks();
        for _ in 0..20 {
            wait_for_ticks(20);
            threads.iter().for_each(Thread::unpark);
        }
        let passed = ticks() - begun;
        let after = shown();
        let due = passed * IDLE as u64;
        assert!(
            after - before >= due * 7 / 10,
            "{} of {due} ticks of threads",
            after - before
        );
    });
}

#[test]
fn a_pause_drops_no_rest() {
    own_process!();
    const IDLE: usize = 50;
    among_idle(IDLE, |_| {
        wait_for_ticks(200);
        let dropped = || samples().1.counts().dropped.total();
        let before = dropped();
        for _ in 0..5 {
            wait_for_ticks(20);
            session::pause();
            std::thread::sleep(Duration::from_millis(20)); // lets the sampler run
            session::resume();
        }
        wait_for_ticks(20);
        let after = dropped();
        assert!(
            after < before + IDLE as u64,
            "{} entries dropped",
            after - before
        );
    });
}

/// Waits, and returns how long.
#[inline(never)]
fn waits_long() -> Duration {
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    std::hint::black_box(begun).elapsed()
}

#[inline(never)]
fn waits_briefly() -> Duration {
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(60));
    std::hint::black_box(begun).elapsed()
}

fn computes_until_it_has_samples() {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(15) {
        std::hint::black_box(&begun);
    }
}

/// Once all recorded threads were seen to wait, the passes look at none of them until one runs.
/// The thread then has a sample before the next look. The sample must end the wait before it.
/// Otherwise each wait would get the time of the wait before.
#[test]
fn a_wait_keeps_its_time_if_no_pass_looks_before_the_next_sample() {
    own_process!();
    let _session = Session::start(&["waiter"]);
    let waits = || {
        thread::register("waiter");
        let mut waited = [Duration::ZERO; 2];
        for _ in 0..4 {
            waited[0] += waits_long();
            computes_until_it_has_samples();
            waited[1] += waits_briefly();
            computes_until_it_has_samples();
        }
        (thread::current(), waited)
    };
    let (waiter, waited) = std::thread::scope(|scope| scope.spawn(waits).join().unwrap());
    wait_one_pass();
    let samples = &samples().0[&waiter.get()];
    let ticks_in = |function: fn() -> Duration| {
        let of_function = |sample: &&Seen| sample.place_of(function as *const ()).is_some();
        ticks_of(samples.iter().filter(of_function))
    };
    let (long, brief) = (ticks_in(waits_long), ticks_in(waits_briefly));
    // At least half of the ratio that the thread has measured.
    let [waited_long, waited_briefly] = waited.map(|time| time.as_secs_f64());
    let is_in_proportion = 2.0 * long as f64 * waited_briefly > brief as f64 * waited_long;
    assert!(is_in_proportion, "{long} and {brief} ticks of {waited:?}");
}
