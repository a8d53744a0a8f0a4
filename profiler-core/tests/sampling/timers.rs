//! Tests of samples that timers take: their weights, short threads, and what is left of the timers.

#![allow(unsafe_code)]

use std::time::Duration;

use profiler_core::ids::ThreadId;
use profiler_core::session::{self, OverheadBudget, SampleSource};
use profiler_core::thread;
use test_support::own_process;
use test_support::threads::on_thread;

use super::busy::{beside, innermost};
use super::read::{
    SOURCES, Session, gives_events, overheads, samples, samples_of, until, wait_one_pass,
};

const MS: u64 = 1_000_000;
/// The longest tick of a system.
const LONGEST_TICK: u64 = 10 * MS;

/// Processor time of the calling thread.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into a live variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Computes until the calling thread has used this much more processor time. Hardly any of this
/// time is in the system, because perf events do not count the time in the system.
fn use_cpu(ns: u64) {
    let end = own_cpu_ns() + ns;
    while own_cpu_ns() < end {
        (0..20_000_u64).for_each(|number| _ = std::hint::black_box(number));
    }
}

fn weight_of(tid: ThreadId) -> u64 {
    wait_one_pass();
    let samples = samples().0.remove(&tid.get()).unwrap_or_default();
    samples.iter().filter_map(|sample| sample.cpu_ns).sum()
}

/// Runs `work` on a thread that registers; returns the weights of its samples and the processor
/// time that it used.
fn weighed(work: impl FnOnce() + Send + 'static) -> (u64, u64) {
    let body = move || {
        thread::register("weighed");
        let before = own_cpu_ns();
        work();
        let used = own_cpu_ns() - before;
        (weight_of(thread::current()), used)
    };
    on_thread(body)
}

/// The most processor time that a thread uses between two samples: ten intervals, and the time
/// until the sampler looks at the thread.
fn tail() -> u64 {
    let params = samples().1.header.params.unwrap();
    10 * params.interval_ns + 50 * MS
}

/// The first sample of a thread stands for a whole tick. The time after the last sample before each
/// pause and before the thread's end is in no sample. It is at most [`tail`].
fn assert_complete((weight, used): (u64, u64), pauses: u64) {
    let least = used - used / 50 - tail() * (pauses + 1);
    let most = used + used / 50 + 2 * LONGEST_TICK;
    assert!(
        (least..=most).contains(&weight),
        "samples carry {weight} of {used} ns"
    );
}

#[test]
fn the_weights_of_a_busy_threads_samples_are_its_processor_time() {
    own_process!();
    for source in SOURCES {
        let _session = Session::by(source);
        assert_complete(weighed(|| use_cpu(500 * MS)), 0);
    }
}

#[test]
fn the_weights_of_short_bursts_are_their_processor_time() {
    own_process!();
    let _session = Session::by(SampleSource::Timer);
    let bursts = || {
        for _ in 0..4000 {
            use_cpu(100_000);
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    assert_complete(weighed(bursts), 0);
}

/// The interval of the session, and the one in force.
fn intervals_ns() -> (u64, u64) {
    let params = samples().1.header.params.unwrap();
    let last = until(|| overheads().last().copied());
    (params.interval_ns, last.interval_ns)
}

/// The longest interval so far. At most two intervals have no sample: the one after the last
/// sample, and the one that a change cut short.
///
/// A pass records the interval that was in force before it, so this waits for one more pass.
fn longest_interval_ns() -> u64 {
    let passes = overheads().len();
    let all = until(|| Some(overheads()).filter(|all| all.len() > passes));
    all.iter().map(|costs| costs.interval_ns).max().unwrap()
}

#[test]
fn s2_a_small_budget_makes_the_interval_longer_and_weights_stay_the_processor_time() {
    own_process!();
    for source in [SampleSource::Timer, SampleSource::Sigtrap] {
        interval_becomes_longer(source);
    }
}

fn interval_becomes_longer(source: SampleSource) {
    let _session = Session::within(OverheadBudget::MIN, source);
    let (weight, used) = weighed(|| {
        let begin = own_cpu_ns();
        until(|| {
            use_cpu(50 * MS);
            let (least, now) = intervals_ns();
            (now >= 4 * least).then_some(())
        });
        use_cpu(2 * (own_cpu_ns() - begin));
    });
    let unsampled = 2 * longest_interval_ns();
    let slack = 2 * LONGEST_TICK + used / 50;
    assert!(
        weight <= used + slack && used <= weight + unsampled + slack,
        "{source:?}: samples carry {weight} of {used} ns, which may lack {unsampled} ns"
    );
    assert!(overheads().iter().any(|costs| costs.handlers_ns > 0));
}

#[test]
fn s3_a_session_without_a_budget_keeps_its_interval() {
    own_process!();
    let _session = Session::by(SampleSource::Timer);
    weighed(|| use_cpu(2500 * MS)); // with a budget, it is compared after one second
    let (of_session, _) = intervals_ns();
    let costs = overheads();
    assert!(
        costs.iter().all(|costs| costs.interval_ns == of_session),
        "{costs:?}"
    );
}

#[test]
fn a_thread_that_registers_after_it_was_found_is_not_weighed_twice() {
    own_process!();
    let _session = Session::by(SampleSource::Timer);
    let work = || {
        let tid = thread::current();
        let before = own_cpu_ns();
        while !samples().0.contains_key(&tid.get()) {
            use_cpu(20 * MS);
        }
        let found = own_cpu_ns();
        for _ in 0..20 {
            thread::register("again and again");
            profiler_core::marker!("joins");
            use_cpu(20 * MS);
            thread::unregister();
        }
        let now = own_cpu_ns();
        (tid, found - before, now - found)
    };
    let (tid, until_found, since) = on_thread(work);
    let weight = weight_of(tid);
    let most = until_found + since + 2 * LONGEST_TICK;
    assert!(
        since - since / 10 - tail() <= weight && weight <= most,
        "samples carry {weight} of {until_found} and {since} ns"
    );
}

/// When the pause begins, the sampler sleeps because all threads were idle: it may sleep for
/// longer than the pause takes.
#[test]
fn processor_time_of_a_pause_is_in_no_sample() {
    own_process!();
    for samples_only in [true, false] {
        let _session = Session::by(SampleSource::Timer);
        let (weight, used) = weighed(move || {
            use_cpu(200 * MS);
            std::thread::sleep(Duration::from_millis(1200));
            set_paused(true, samples_only);
            use_cpu(120 * MS);
            set_paused(false, samples_only);
            wait_one_pass();
            use_cpu(200 * MS);
        });
        assert_complete((weight, used - 120 * MS), 1);
    }
}

fn set_paused(paused: bool, samples_only: bool) {
    match (paused, samples_only) {
        (true, true) => session::pause_sampling(),
        (true, false) => session::pause(),
        (false, true) => session::resume_sampling(),
        (false, false) => session::resume(),
    }
}

/// A timer fires at a tick of the system, so one of many short threads is sampled, with the weight
/// of a tick.
#[test]
fn threads_that_live_for_a_fraction_of_a_tick_are_sampled_if_they_register() {
    own_process!();
    const THREADS: u64 = 2000;
    let _session = Session::by(SampleSource::Timer);
    let short = || {
        thread::register("short");
        use_cpu(200_000);
        thread::current()
    };
    let all: Vec<_> = (0..THREADS)
        .map(|_| {
            let thread = std::thread::Builder::new().spawn(short).unwrap();
            thread.join().unwrap()
        })
        .collect();
    // The expected number is that of ticks in 400 ms of processor time: 40 to 400.
    until(|| {
        wait_one_pass();
        let (samples, _) = samples();
        let of_short = all
            .iter()
            .filter_map(|tid| samples.get(&tid.get()))
            .flatten();
        let with_stack = of_short.filter(|sample| sample.addresses.len() > 3);
        (with_stack.count() >= 8).then_some(())
    });
}

/// Processor time of the process.
fn all_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into a live variable.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// A few of them have a sample, which stands for a whole tick. With 50 expected samples, the sum
/// differs from the time used by a seventh, as a rule, and never by two thirds.
#[test]
fn the_weights_of_very_short_threads_are_in_sum_their_processor_time() {
    own_process!();
    let _session = Session::by(SampleSource::Timer);
    let short = || {
        thread::register("short");
        let before = own_cpu_ns();
        use_cpu(200_000);
        (thread::current(), own_cpu_ns() - before)
    };
    let began = all_cpu_ns();
    let mut used = 0;
    let mut all = Vec::new();
    while used < 50 * LONGEST_TICK {
        let thread = std::thread::Builder::new().spawn(short).unwrap();
        let (tid, time) = thread.join().unwrap();
        all.push(tid);
        used += time;
    }
    let most = all_cpu_ns() - began;
    wait_one_pass();
    let (samples, _) = samples();
    let of_short = all.iter().filter_map(|tid| samples.get(&tid.get()));
    let weight: u64 = of_short.flatten().filter_map(|sample| sample.cpu_ns).sum();
    println!("{weight} of {used} to {most} ns in {} threads", all.len());
    assert!(
        (used / 3..2 * most).contains(&weight),
        "samples carry {weight} of {used} to {most} ns"
    );
}

#[test]
fn the_source_stands_in_the_pool() {
    own_process!();
    for source in SOURCES {
        let _session = Session::by(source);
        let found = until(|| samples().1.header.sample_source);
        let expected = match source {
            SampleSource::Sigtrap if !gives_events() => SampleSource::Timer,
            source => source,
        };
        assert_eq!(found, expected);
    }
}

/// Allows this process no queued signals, and so no timers.
fn forbid_timers() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: reads a live variable.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const none) };
    assert_eq!(failed, 0);
}

#[test]
fn without_timers_threads_are_sampled_by_signals() {
    own_process!();
    forbid_timers();
    let _session = Session::by(SampleSource::Automatic);
    beside("cruncher", innermost, |thread| {
        samples_of(thread, 20);
    });
    assert_eq!(samples().1.header.sample_source, Some(SampleSource::Signal));
}

#[test]
fn threads_that_get_no_timer_have_samples_of_their_processor_time() {
    own_process!();
    let _session = Session::by(SampleSource::Timer);
    until(|| samples().1.header.sample_source);
    forbid_timers();
    beside("without", innermost, |thread| {
        let samples = samples_of(thread, 5);
        // A sample without processor time shows a wait, such as a page fault.
        let mut running = samples.iter().filter(|sample| sample.cpu_ns > Some(0));
        assert!(
            running.all(|sample| sample.addresses.is_empty()),
            "{samples:?}"
        );
    });
    let notices = samples().1.definitions.notices().len();
    assert!(notices > 0, "no notice says so");
}

/// The timers of this process; `None` if the system does not list them.
fn timers() -> Option<usize> {
    let list = std::fs::read_to_string("/proc/self/timers").ok()?;
    Some(list.lines().filter(|line| line.starts_with("ID:")).count())
}

#[test]
fn no_timer_is_left_after_a_stop_or_of_a_thread_that_has_ended() {
    own_process!();
    let Some(before) = timers() else { return };
    let session = Session::by(SampleSource::Timer);
    beside("found", innermost, |found| {
        samples_of(found, 5);
        assert!(timers() > Some(before));
    });
    let registers = || thread::register("registers");
    for _ in 0..50 {
        let thread = std::thread::Builder::new().spawn(registers).unwrap();
        thread.join().unwrap();
    }
    // The main thread and this one remain.
    until(|| {
        session::wait_one_periodic_sampling();
        (timers()? <= before + 2).then_some(())
    });
    drop(session);
    assert_eq!(timers(), Some(before));
}
