//! Tests of the sampler in processes with very many threads.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::thread::JoinHandle;

use profiler_core::session::SampleSource;
use test_support::own_process;

use super::busy::{beside, innermost};
use super::read::{Session, gives_events, more_stacks, more_without_stacks, until};
use super::users::has_become;
use crate::support;

/// Fewer, because the source asks about each thread from time to time, whether it runs or not.
const THREADS_BY_SIGNALS: usize = 1000;
const THREADS: usize = 10_000;
const STACK: usize = 64 << 10;
/// The memory by which a process may grow per thread that is sampled, besides the session's limit.
const MAX_PER_THREAD: u64 = 4096;
const LIMIT: u64 = 128 << 20;

static GATE: RwLock<()> = RwLock::new(());

/// Waiting threads, which end when this is dropped.
struct Crowd {
    /// `None` once they may end.
    closed: Option<RwLockWriteGuard<'static, ()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Starts the threads. `None`, with a printed reason, if the system gives fewer.
    fn of(count: usize) -> Option<Self> {
        let closed = Some(GATE.write().unwrap_or_else(PoisonError::into_inner));
        let threads = Vec::with_capacity(count);
        let mut crowd = Self { closed, threads };
        let body = || drop(GATE.read());
        for number in 0..count {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn(body);
            match thread {
                Ok(thread) => crowd.threads.push(thread),
                Err(error) => {
                    println!("left out: {number} threads: {error}");
                    return None;
                }
            }
        }
        Some(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.closed = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The memory of this process in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

/// Whether the system gives each thread a timer: half of the user's queued signals suffice.
fn has_timers_for(threads: usize) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes into a live variable.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit) };
    let suffices = failed == 0 && limit.rlim_cur / 2 > 2 * threads as libc::rlim_t;
    if !suffices {
        println!("left out: {} queued signals", limit.rlim_cur);
    }
    suffices
}

/// Between the two busy threads, the sampler finds this number that wait.
fn busy_threads_in_a_crowd_are_sampled(source: SampleSource, threads: usize) {
    beside("first", innermost, |first| {
        let Some(crowd) = Crowd::of(threads) else {
            return;
        };
        let before = resident_bytes();
        let session = Session::by(source);
        let reader = support::pool();
        let shows_innermost = |thread| more_stacks(&reader, thread, innermost as *const ());
        shows_innermost(first);
        beside("last", innermost, shows_innermost);
        let rows = || reader.snapshot().unwrap().threads.len();
        until(|| (rows() > threads).then_some(()));
        shows_innermost(first);
        let grown = resident_bytes().saturating_sub(before);
        println!("{source:?}: {} KiB for {} rows", grown / 1024, rows());
        let most = LIMIT + MAX_PER_THREAD * threads as u64;
        assert!(grown < most, "{grown} bytes for the samples");
        drop(session);
        drop(crowd);
    });
}

/// Sets the number of descriptors that the process may open.
fn limit_descriptors(most: libc::rlim_t) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes into a live variable.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur = most;
    // SAFETY: reads a live variable.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!((read, set), (0, 0));
}

/// The number of this process's open perf events.
fn open_events() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| target.to_string_lossy().contains("[perf_event]"))
        .count()
}

/// The threads without an event have timers, so they are sampled as well.
#[test]
fn perf_events_take_at_most_a_quarter_of_the_descriptors() {
    own_process!();
    if !gives_events() {
        println!("left out: the system gives no events");
        return;
    }
    limit_descriptors(200);
    let crowd = Crowd::of(100);
    let _session = Session::by(SampleSource::Sigtrap);
    let reader = support::pool();
    until(|| (open_events() >= 50).then_some(()));
    for _ in 0..3 {
        beside("late", innermost, |late| {
            more_stacks(&reader, late, innermost as *const ());
        });
        assert_eq!(open_events(), 50);
    }
    drop(crowd);
}

#[test]
fn busy_threads_among_ten_thousand_are_sampled_by_timers() {
    own_process!();
    if has_timers_for(THREADS) {
        busy_threads_in_a_crowd_are_sampled(SampleSource::Timer, THREADS);
    }
}

#[test]
fn busy_threads_among_a_thousand_are_sampled_by_signals() {
    own_process!();
    busy_threads_in_a_crowd_are_sampled(SampleSource::Signal, THREADS_BY_SIGNALS);
}

/// The number of queued signals that the user may have.
const QUEUED: usize = 400;
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_own(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Becomes a user that has no other process, who may have [`QUEUED`] queued signals. False, with a
/// printed reason, if the process may not do it.
fn has_become_limited() -> bool {
    let has_become = has_become(300_000 + std::process::id());
    // SAFETY: takes only numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    let limit = libc::rlimit {
        rlim_cur: QUEUED as libc::rlim_t,
        rlim_max: QUEUED as libc::rlim_t,
    };
    // SAFETY: reads a live variable.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limit) };
    assert_eq!(failed, 0);
    has_become
}

/// Sends the process a signal of which the system keeps every one; its handler counts it.
fn queue_own_signal() -> bool {
    let value = libc::sigval {
        sival_ptr: std::ptr::null_mut(),
    };
    let pid = std::process::id().cast_signed();
    // SAFETY: sends a signal for which the program has a handler to itself.
    unsafe { libc::sigqueue(pid, libc::SIGRTMIN(), value) == 0 }
}

#[test]
fn timers_leave_half_of_the_queued_signals_to_the_program() {
    own_process!();
    if !has_become_limited() {
        return;
    }
    // SAFETY: the handler is a static function that stores to an atomic.
    unsafe { libc::signal(libc::SIGRTMIN(), on_own as *const () as usize) };
    let _session = Session::by(SampleSource::Timer);
    let reader = support::pool();
    let Some(_crowd) = Crowd::of(2 * QUEUED) else {
        return;
    };
    let is_told = || !reader.snapshot().unwrap().definitions.notices().is_empty();
    until(|| is_told().then_some(()));
    beside("late", innermost, |late| more_without_stacks(&reader, late));
    for sent in 1..=100 {
        assert!(queue_own_signal(), "{}", std::io::Error::last_os_error());
        until(|| (HANDLED.load(Ordering::Relaxed) == sent).then_some(()));
    }
}
