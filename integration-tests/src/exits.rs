//! Processes that call `exit` as C programs do: in a signal handler that interrupted `malloc`.
//!
//! [`play`] is such a process, started by a session; [`Ends::of`] starts many, one after the other,
//! and counts those that never end. Used by the test `exits` and by the figure of the same name,
//! whose programs both play it. The interrupted thread also records, so a handler may interrupt
//! the profiler, too.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use profiler_core::{label, marker};
use profiler_parent::Session;

use crate::marks;
use crate::patience::{LONG, Stopwatch};

/// The ways to end: the thread that is interrupted, and what its handler calls.
pub const WAYS: [&str; 4] = ["main-exit", "thread-exit", "named-thread-exit", "main-quick-exit"];

/// Entries before the interrupted part, for a test to find.
pub const FIRST_ENTRIES: u64 = 100;

/// How often each way was tried, and how many processes hung.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Processes that were started.
    pub runs: u64,
    /// Processes that had to be killed.
    pub hung: u64,
}

impl Ends {
    /// Starts `runs` processes of each way in a session. `command` returns the command for a way.
    ///
    /// # Errors
    /// When a process cannot be started, or does not end with its `exit`.
    pub fn of(
        session: &Session,
        runs: u64,
        command: impl Fn(&str, u64) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Self> {
        let mut ends = Self::default();
        for way in WAYS {
            for run in 0..runs {
                let child = session.spawn(&format!("{way} {run}"), command(way, run)?)?;
                ends.runs += 1;
                ends.hung += u64::from(!has_ended(child)?);
            }
        }
        Ok(ends)
    }
}

/// False if it had to be killed.
fn has_ended(mut child: profiler_parent::ProfiledChild) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    while !child.has_ended() {
        if watch.elapsed() > LONG {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    let status = child.wait().context("somebody took its status")?;
    ensure!(status.success(), "ended with {status}");
    Ok(true)
}

/// Records, and ends in this way; the number determines when.
///
/// # Errors
/// When it is not a process of a session, or the way is unknown.
pub fn play(way: &str, run: u64) -> anyhow::Result<()> {
    let status = profiler_child::init();
    ensure!(matches!(status, profiler_child::Status::Recording), "not recording: {status:?}");
    (0..FIRST_ENTRIES).for_each(|sequence| marks::record(1, sequence));
    let quick = way.ends_with("quick-exit");
    handle(libc::SIGALRM, if quick { end_quickly } else { end });
    match way {
        "main-exit" | "main-quick-exit" => {
            alarm_after(run);
            churn(std::ptr::null_mut());
        }
        "thread-exit" | "named-thread-exit" => {
            start_thread(way == "named-thread-exit")?;
            block(libc::SIGALRM);
            alarm_after(run);
        }
        other => anyhow::bail!("unknown way {other}"),
    }
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: the subject of this file: not formally safe, but many programs do it.
    unsafe { libc::exit(0) }
}

extern "C" fn end_quickly(_: libc::c_int) {
    unsafe extern "C" {
        fn quick_exit(code: libc::c_int) -> !;
    }
    // SAFETY: no handler for it is registered.
    unsafe { quick_exit(0) }
}

/// Has a signal handled by a function.
pub fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler is a function of the type that the system calls.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

/// A thread as a C program starts one: unknown to the standard library.
fn start_thread(named: bool) -> anyhow::Result<()> {
    extern "C" fn run(named: *mut libc::c_void) -> *mut libc::c_void {
        if !named.is_null() {
            // SAFETY: has no arguments and cannot fail.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: names the calling thread by a text that ends in zero.
            unsafe { libc::pthread_setname_np(own, c"worker".as_ptr()) };
        }
        churn(std::ptr::null_mut())
    }
    let mut thread = 0;
    let argument = std::ptr::without_provenance_mut(usize::from(named));
    // SAFETY: a new thread with default attributes, which never ends.
    let failed = unsafe { libc::pthread_create(&raw mut thread, std::ptr::null(), run, argument) };
    ensure!(failed == 0, "no thread");
    Ok(())
}

fn block(signal: libc::c_int) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // SAFETY: the set is initialised and lives through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

/// One alarm, from a tenth of a millisecond to five milliseconds from now.
fn alarm_after(run: u64) {
    let us = 100 + run.wrapping_mul(733) % 4900;
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::itimerval {
        it_interval: never,
        it_value: libc::timeval { tv_sec: 0, tv_usec: us.cast_signed() },
    };
    // SAFETY: the signal has a handler; the value lives through the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) };
}

/// Allocates and frees memory forever, and records from time to time.
fn churn(_: *mut libc::c_void) -> ! {
    let mut kept = [std::ptr::null_mut::<libc::c_void>(); 64];
    for round in 0_u64.. {
        let place = usize::try_from(round.wrapping_mul(31) % 64).unwrap_or(0);
        let bytes = 16 << (round.wrapping_mul(7) % 13);
        // SAFETY: null, or from `malloc` below and in use nowhere else.
        unsafe { libc::free(kept[place]) };
        // SAFETY: any number of bytes may be asked for.
        kept[place] = black_box(unsafe { libc::malloc(bytes) });
        if round.is_multiple_of(16) {
            let _label = label!("churns");
            let _group = profiler_core::group!("plugin:churn").enter();
            marker!("round");
        }
    }
    unreachable!("the rounds do not end")
}
