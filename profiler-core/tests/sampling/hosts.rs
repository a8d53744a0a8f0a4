//! Tests of the sampler in programs that use or block its signal.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profiler_core::ids::ThreadId;
use profiler_core::session::{self, SampleSource};
use test_support::forks::in_forked_child;
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{SOURCES, Seen, Session, overhead_ns, samples, samples_of, until, wait_one_pass};

/// The signal with which samples are taken.
const SIGNAL: libc::c_int = libc::SIGURG;

static RAISED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_own(_signal: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

/// The signals with which samples are taken by any source.
const ALL: [libc::c_int; 2] = [SIGNAL, libc::SIGTRAP];

/// Blocks the signals with which samples are taken.
pub(super) fn block() {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is a live variable, which the call initializes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in ALL {
        // SAFETY: the set is initialized.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: the set is initialized and lives through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

/// Whether any of the signals is pending in the calling thread.
fn is_pending() -> bool {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `set` is a live variable, which the call writes.
    unsafe { libc::sigpending(set.as_mut_ptr()) };
    // SAFETY: the set is initialized: zeros are a valid set, and the call above wrote it.
    ALL.iter()
        .any(|signal| unsafe { libc::sigismember(set.as_ptr(), *signal) == 1 })
}

#[test]
fn a_thread_that_blocks_the_signal_is_not_armed_and_the_others_are() {
    own_process!();
    // The thread that computes inherits the blocked signals, so it never accepts them.
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
    for source in SOURCES {
        let _session = Session::by(source);
        beside("deaf", deaf, |_| {
            beside("hears", innermost, |hears| {
                samples_of(hears, 100);
                until(|| (session::sampling_stats()?.deaf > 0).then_some(()));
                let before = samples_of(hears, 1).len();
                samples_of(hears, before + 100);
            });
        });
    }
}

#[test]
fn threads_that_block_the_signal_later_are_found_and_have_samples_without_stacks() {
    own_process!();
    const DEAF: usize = 8;
    for source in SOURCES {
        let _session = Session::by(source);
        let stop = AtomicBool::new(false);
        let blocks = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop_in_the_end = Stop(&stop);
            for _ in 0..DEAF {
                scope.spawn(|| {
                    innermost(&blocks);
                    block(); // after the sampler has read samples of it
                    innermost(&stop)
                });
            }
            let _block_in_the_end = Stop(&blocks);
            until(|| (session::sampling_stats()?.taken >= 4 * DEAF as u64).then_some(()));
            blocks.store(true, Ordering::Relaxed);
            until(|| (session::sampling_stats()?.deaf >= DEAF as u64).then_some(()));
            let without_stack = |seen: &Seen| seen.addresses.is_empty() && seen.cpu_ns > Some(0);
            until(|| {
                let (all, _) = samples();
                let deaf = all.values().filter(|all| all.iter().any(without_stack));
                (deaf.count() >= DEAF).then_some(())
            });
        });
    }
}

/// A thread that registers gets its timer at once, before it blocks the signal.
#[test]
fn a_thread_that_registers_and_blocks_the_signal_at_once_has_samples_without_stacks() {
    own_process!();
    for source in SOURCES {
        let _session = Session::by(source);
        let work = |stop: &AtomicBool| {
            profiler_core::thread::register("blocks at once");
            block();
            innermost(stop)
        };
        beside("blocks at once", work, |thread| {
            let is_bare = |seen: &Seen| seen.addresses.is_empty() && seen.cpu_ns > Some(0);
            until(|| {
                let samples = samples().0.remove(&thread.get())?;
                (samples.iter().filter(|seen| is_bare(seen)).count() >= 3).then_some(())
            });
        });
    }
}

/// The processor time of a thread is in its samples exactly once, also if its trigger is taken
/// away.
#[test]
fn a_thread_that_loses_its_trigger_is_not_weighed_twice() {
    own_process!();
    for source in SOURCES {
        let _session = Session::by(source);
        let blocks = AtomicBool::new(false);
        let work = |stop: &AtomicBool| {
            innermost(&blocks);
            block();
            innermost(stop)
        };
        beside("blocks", work, |thread| {
            let _block_in_the_end = Stop(&blocks);
            let weight = || -> u64 {
                wait_one_pass();
                let samples = samples().0.remove(&thread.get()).unwrap_or_default();
                samples.iter().filter_map(|seen| seen.cpu_ns).sum()
            };
            until(|| (weight() > 300_000_000).then_some(()));
            blocks.store(true, Ordering::Relaxed);
            until(|| (session::sampling_stats()?.deaf > 0).then_some(()));
            let before = weight();
            until(|| (weight() > before + 50_000_000).then_some(()));
            let weight = weight();
            let used = cpu_ns_of(thread);
            assert!(weight <= used + 20_000_000, "{weight} of {used} ns");
        });
    }
}

/// The processor time that a thread of this process has used.
fn cpu_ns_of(thread: ThreadId) -> u64 {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let times = std::fs::read_to_string(path).unwrap();
    times.split(' ').next().unwrap().parse().unwrap()
}

extern "C" fn on_trap(_signal: libc::c_int) {
    RAISED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_program_that_handles_sigtrap_is_sampled_by_timers() {
    own_process!();
    // SAFETY: the handler is a static function that only counts.
    unsafe { libc::signal(libc::SIGTRAP, on_trap as *const () as usize) };
    let _session = Session::by(SampleSource::Sigtrap);
    beside("cruncher", innermost, |thread| {
        samples_of(thread, 20);
        let source = samples().1.header.sample_source;
        assert_eq!(source, Some(SampleSource::Timer));
    });
    assert_eq!(RAISED.load(Ordering::Relaxed), 0);
    // SAFETY: the handler above receives it.
    unsafe { libc::raise(libc::SIGTRAP) };
    assert_eq!(RAISED.load(Ordering::Relaxed), 1);
}

/// Meets a breakpoint in a forked child; returns the signal that ended it.
fn end_of_a_child_that_meets_a_breakpoint() -> libc::c_int {
    let in_child = || {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a breakpoint, without a debugger.
        unsafe {
            std::arch::asm!("int3")
        };
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: sends a signal to itself.
        unsafe {
            libc::raise(libc::SIGTRAP)
        };
        0
    };
    // SAFETY: the child only meets a breakpoint.
    libc::WTERMSIG(unsafe { in_forked_child(in_child) })
}

#[test]
fn a_breakpoint_without_a_debugger_ends_the_process_as_without_us() {
    own_process!();
    let _session = Session::by(SampleSource::Sigtrap);
    beside("cruncher", innermost, |thread| {
        samples_of(thread, 20);
        assert_eq!(end_of_a_child_that_meets_a_breakpoint(), libc::SIGTRAP);
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
fn the_overhead_is_at_most_the_processor_time_of_the_sampler() {
    own_process!();
    for source in SOURCES {
        let _session = Session::by(source);
        beside("cruncher", innermost, |thread| {
            samples_of(thread, 20);
            let overhead = overhead_ns();
            let used = sampler_cpu_ns();
            assert!(
                0 < overhead && overhead <= used,
                "{overhead} of {used} ns of processor time"
            );
        });
    }
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
            wait_one_pass();
        }
        // Timers run until the sampler has noticed it.
        let raised = RAISED.load(Ordering::Relaxed);
        for _ in 0..100 {
            wait_one_pass();
        }
        let further = RAISED.load(Ordering::Relaxed) - raised;
        assert_eq!(further, 0, "signals after the first {raised}");
        // SAFETY: restores the action that the system returned; it lives through the call.
        unsafe { libc::sigaction(SIGNAL, &raw const ours, std::ptr::null_mut()) };
    });
    drop(session);
}
