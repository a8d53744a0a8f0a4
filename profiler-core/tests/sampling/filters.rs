//! Tests of the sampler in programs with a filter of system calls (seccomp), also one that is
//! installed while samples are taken.
//!
//! The filters refuse the calls for timers, or end the process for them. Threads that have a timer
//! are sampled as before. Threads that get none have samples without stacks, and a notice says so.

#![allow(unsafe_code)]

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::{self, OverheadBudget, SampleSource};
use profiler_core::thread;
use test_support::forks::in_forked_child;
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{
    Session, more_stacks, more_without_stacks, samples, samples_in, until, wait_one_pass,
    without_stacks,
};
use crate::support;

/// The calls for timers, and one that the profiler does not make.
const TIMERS: &[libc::c_long] = &[
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_delete,
    libc::SYS_perf_event_open,
];
/// The calls that open a file.
const OPENS: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")] // other architectures do not have it
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
];
/// The answers of a filter.
const REFUSES: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const KILLS: u32 = libc::SECCOMP_RET_KILL_PROCESS;
/// The threads that get a filter: all of the process, or the calling one.
const ALL_THREADS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_TSYNC;
const OWN_THREAD: libc::c_ulong = 0;

/// Installs a filter that gives this answer to these calls, and allows all others.
fn install(calls: &[libc::c_long], answer: u32, threads: libc::c_ulong) {
    let step = |code: u32, k: u32, else_skip: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: 0,
        jf: else_skip,
        k,
    };
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answers = libc::BPF_RET | libc::BPF_K;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        program.push(step(equals, u32::try_from(*call).unwrap(), 1));
        program.push(step(answers, answer, 0));
    }
    program.push(step(answers, libc::SECCOMP_RET_ALLOW, 0));
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap(),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes only numbers. Afterwards, no execve gives this process more rights.
    let failed = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(failed, 0);
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the pointer is to a filter of that length, which the kernel copies in the call.
    let failed = unsafe { libc::syscall(libc::SYS_seccomp, mode, threads, &raw const filter) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

fn shows_innermost(reader: &PoolReader<File>, thread: ThreadId) {
    more_stacks(reader, thread, innermost as *const ());
}

/// Registers and computes: the sampler knows the thread even if the system lists no threads.
fn register_and_compute(stop: &AtomicBool) -> u64 {
    thread::register("registered");
    innermost(stop)
}

fn assert_notice(reader: &PoolReader<File>, text: &str) {
    let found = samples_in(reader).1;
    let notices = found.definitions.notices();
    assert!(format!("{notices:?}").contains(text), "{notices:?}");
}

#[test]
fn a_filter_that_refuses_timers_and_files_costs_armed_threads_no_sample() {
    own_process!();
    let session = Session::by(SampleSource::Timer);
    let reader = support::pool();
    beside("armed", innermost, |armed| {
        shows_innermost(&reader, armed);
        install(&[TIMERS, OPENS].concat(), REFUSES, ALL_THREADS);
        shows_innermost(&reader, armed);
        beside("late", register_and_compute, |late| {
            more_without_stacks(&reader, late);
        });
        assert_notice(&reader, "a filter of system calls");
        drop(session);
    });
}

/// Under this filter, every call for a timer ends the process: while threads end, in a pause, at
/// the end of the session and at the start of the next.
#[test]
fn no_call_for_a_timer_is_made_under_a_filter_that_was_installed_later() {
    own_process!();
    let session = Session::by(SampleSource::Timer);
    let reader = support::pool();
    beside("armed", innermost, |armed| {
        beside("ends", innermost, |ends| {
            shows_innermost(&reader, armed);
            shows_innermost(&reader, ends);
            install(TIMERS, KILLS, ALL_THREADS);
            shows_innermost(&reader, ends);
        });
        for _ in 0..5 {
            wait_one_pass(); // lists the threads
        }
        shows_innermost(&reader, armed);
        for late in [innermost, register_and_compute] {
            beside("late", late, |late| more_without_stacks(&reader, late));
        }
        assert_notice(&reader, "a filter of system calls");
        pause_until_without_stacks(&reader, armed);
        drop(session);
        let _next = Session::by(SampleSource::Timer);
        shows_innermost(&support::pool(), armed);
        let source = samples().1.header.sample_source;
        assert_eq!(source, Some(SampleSource::Signal));
        filters_are_kept();
    });
}

/// The interval that a budget asks for would need a call for a timer.
#[test]
fn no_timer_gets_another_interval_under_a_filter_that_was_installed_later() {
    own_process!();
    let session = Session::within(OverheadBudget::MIN, SampleSource::Timer);
    let reader = support::pool();
    beside("armed", innermost, |armed| {
        shows_innermost(&reader, armed);
        install(TIMERS, KILLS, ALL_THREADS);
        // The budget is compared once per second.
        std::thread::sleep(Duration::from_millis(2500));
        shows_innermost(&reader, armed);
        drop(session);
        filters_are_kept();
    });
}

/// Pauses sampling until a thread has lost its timer. The sampler may sleep through a pause.
fn pause_until_without_stacks(reader: &PoolReader<File>, thread: ThreadId) {
    let before = without_stacks(reader, thread);
    until(|| {
        session::pause_sampling();
        std::thread::sleep(Duration::from_millis(300));
        session::resume_sampling();
        // A sample without a stack is due after an interval of processor time.
        std::thread::sleep(Duration::from_millis(300));
        wait_one_pass();
        (without_stacks(reader, thread) >= before + 10).then_some(())
    });
}

/// The sampler's thread does not have the filter: it arms the thread's heirs.
fn a_filter_of_one_thread(answer: u32) {
    let _session = Session::by(SampleSource::Timer);
    let reader = support::pool();
    let filters = AtomicBool::new(false);
    let work = |stop: &AtomicBool| {
        innermost(&filters);
        install(TIMERS, answer, OWN_THREAD);
        thread::register("filtered");
        for heir in [innermost, register_and_compute] {
            beside("heir", heir, |heir| shows_innermost(&reader, heir));
        }
        innermost(stop)
    };
    beside("filtered", work, |filtered| {
        let filtering = Stop(&filters); // also if the next line panics
        shows_innermost(&reader, filtered);
        drop(filtering);
        shows_innermost(&reader, filtered);
    });
}

#[test]
fn a_thread_that_refuses_timers_to_itself_and_its_heirs_is_sampled_on() {
    own_process!();
    a_filter_of_one_thread(REFUSES);
}

#[test]
fn a_thread_that_dies_for_a_call_for_a_timer_is_sampled_on() {
    own_process!();
    a_filter_of_one_thread(KILLS);
}

#[test]
fn a_filter_against_timers_changes_nothing_where_threads_are_asked() {
    own_process!();
    let session = Session::by(SampleSource::Signal);
    let reader = support::pool();
    beside("before", innermost, |before| {
        shows_innermost(&reader, before);
        install(TIMERS, KILLS, ALL_THREADS);
        shows_innermost(&reader, before);
        beside("after", register_and_compute, |after| {
            shows_innermost(&reader, after);
        });
        drop(session);
    });
}

/// As in a container whose processes cannot gain privileges. Whether the program adds a filter
/// later is known from the number of its filters.
#[test]
fn a_filter_from_before_the_session_allows_timers_until_the_next_filter() {
    own_process!();
    install(&[libc::SYS_perf_event_open], REFUSES, ALL_THREADS);
    let session = Session::by(SampleSource::Automatic);
    let reader = support::pool();
    beside("armed", innermost, |armed| {
        shows_innermost(&reader, armed);
        let source = samples().1.header.sample_source;
        assert_eq!(source, Some(SampleSource::Timer));
        beside("joins", register_and_compute, |joins| {
            shows_innermost(&reader, joins);
            install(TIMERS, KILLS, ALL_THREADS);
            shows_innermost(&reader, joins);
        });
        shows_innermost(&reader, armed);
        beside("late", register_and_compute, |late| {
            more_without_stacks(&reader, late);
        });
        drop(session);
        filters_are_kept();
    });
}

/// Proves that the filter is in force, so that the test above can fail: a process with it dies of a
/// call for a timer.
fn filters_are_kept() {
    let in_child = || {
        // SAFETY: no timer has this number.
        unsafe { libc::syscall(libc::SYS_timer_delete, -1) };
        0
    };
    // SAFETY: the child makes one system call.
    let status = unsafe { in_forked_child(in_child) };
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSYS);
}
