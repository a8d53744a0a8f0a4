//! Processes that call `exit` in a signal handler that interrupted `malloc`, as some C programs do.
//!
//! [`play`] runs in such a process, which a session has started. [`Ends::of`] starts many of them
//! in turn, and counts those that hang. Used by the test `exits` and by the figure of the same
//! name; the programs of both call [`play`]. The interrupted thread also records, so a handler can
//! interrupt the profiler, too.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use profiler_core::{label, marker};
use profiler_parent::Session;

use crate::marks;
use crate::own;
use crate::patience::{LONG, Stopwatch};

/// The ways to end: which thread is interrupted, and which function its handler calls.
pub const WAYS: [&str; 4] = [
    "main-exit",
    "thread-exit",
    "named-thread-exit",
    "main-quick-exit",
];

/// Markers recorded before the interrupted part. A test finds them in the profile.
pub const FIRST_ENTRIES: u64 = 100;

/// How many processes ran, and how many of them hung.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Processes that were started.
    pub runs: u64,
    /// Processes that had to be killed.
    pub hung: u64,
}

impl Ends {
    /// Starts `runs` processes for each way to end. `command` returns the command for a way and a
    /// run.
    ///
    /// # Errors
    /// When a process cannot be started, or ends with another status than that of its `exit`.
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

/// Waits for the end of a process. Returns `false` if the process hung and was killed.
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
    let status = child.wait().context("its exit status is unknown")?;
    ensure!(status.success(), "ended with {status}");
    Ok(true)
}

/// Records until a signal handler ends the process in this way. `run` determines the time of the
/// signal.
///
/// # Errors
/// When the process does not record, or the way is unknown.
pub fn play(way: &str, run: u64) -> anyhow::Result<()> {
    own::join_session()?;
    marks::record_paced(1, 0..FIRST_ENTRIES);
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
        // SAFETY: has no arguments, and only waits for a signal.
        unsafe { libc::pause() };
    }
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: `exit` is not async-signal-safe, but many programs call it in a handler. This file
    // tests that.
    unsafe { libc::exit(0) }
}

extern "C" fn end_quickly(_: libc::c_int) {
    unsafe extern "C" {
        fn quick_exit(code: libc::c_int) -> !;
    }
    // SAFETY: this process registers no handler with `at_quick_exit`.
    unsafe { quick_exit(0) }
}

/// Installs a handler for a signal.
pub fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handler is a static function with the signature that the system expects.
    unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
}

/// Starts a thread as a C program does, so that the standard library does not know it.
fn start_thread(named: bool) -> anyhow::Result<()> {
    extern "C" fn run(named: *mut libc::c_void) -> *mut libc::c_void {
        if !named.is_null() {
            // SAFETY: has no arguments and cannot fail.
            let own = unsafe { libc::pthread_self() };
            // SAFETY: `own` is the calling thread, and the name ends with a zero.
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

/// Sets a single alarm, 0.1 ms to 5 ms from now. `run` determines the time.
fn alarm_after(run: u64) {
    let us = 100 + run.wrapping_mul(733) % 4900;
    let never = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let once = libc::itimerval {
        it_interval: never,
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: us.cast_signed(),
        },
    };
    // SAFETY: the signal has a handler; the value lives through the call.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const once, std::ptr::null_mut()) };
}

/// Allocates and frees memory without end, and records in every sixteenth round.
fn churn(_: *mut libc::c_void) -> ! {
    let mut kept = [std::ptr::null_mut::<libc::c_void>(); 64];
    for round in 0_u64.. {
        let place = usize::try_from(round.wrapping_mul(31) % 64).unwrap_or(0);
        let bytes = 16 << (round.wrapping_mul(7) % 13);
        // SAFETY: the pointer is null, or from `malloc` below and not freed before.
        unsafe { libc::free(kept[place]) };
        // SAFETY: `malloc` accepts any size.
        kept[place] = black_box(unsafe { libc::malloc(bytes) });
        if round.is_multiple_of(16) {
            let _label = label!("churns");
            let _group = profiler_core::group!("plugin:churn").enter();
            marker!("round");
        }
    }
    unreachable!("the rounds do not end")
}
