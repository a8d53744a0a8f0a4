//! Tests of forked children that begin to record anew: they have a session of their own, whatever
//! the threads of the parent were doing at the fork.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(unsafe_code)]

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use profiler_core::counter::Counter;
use profiler_core::groups::{self, Group, GroupKind, Probes};
use profiler_core::internal::reader::groups::GroupReader;
use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use profiler_core::session::{
    self, AfterForkError, Features, SessionParams, StartError, StartOptions,
};
use profiler_core::{label, marker};
use test_support::own_process;
#[cfg(not(profiler_portable))]
use test_support::patience::until;

use crate::fork_and_register::exits_well;
use crate::support::{RunningSession, snapshot};

/// Returns whether `body` returns `true` in a forked child, which then ends.
pub(crate) fn is_true_in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child allocates and starts threads with the C library, where both work in a
    // forked child, and ends with `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let is_true = std::panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: `_exit` has no preconditions; it ends the process at once.
        unsafe { libc::_exit(i32::from(!is_true)) };
    }
    exits_well(pid)
}

/// Begins anew in a forked child.
pub(crate) fn begin_anew() -> Result<(), AfterForkError> {
    // SAFETY: no thread of these tests starts the profiler during a fork, and the C library's
    // allocator works in a forked child.
    unsafe { session::after_fork() }
}

/// Starts a session of this process. False if that is refused.
pub(crate) fn start(features: Features) -> bool {
    let params = SessionParams {
        features,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).is_ok()
}

/// The number of entries that this process has recorded in its session.
fn recorded() -> u64 {
    snapshot().counts().recorded()
}

/// Records markers.
pub(crate) fn record(count: u32) {
    (0..count).for_each(|_| marker!("numbered"));
}

#[test]
fn a_forked_child_that_begins_anew_has_its_own_entries_and_its_parent_all_others() {
    own_process!();
    static BYTES: Counter = Counter::new("bytes", "", "");
    let _session = RunningSession::with_limit(1 << 20);
    record(5);
    BYTES.add(7);
    let _label = label!("open at the fork");
    let is_good = is_true_in_child(|| {
        record(3);
        let is_refused = session::start(SessionParams::default(), StartOptions::default())
            .is_err_and(|error| matches!(error, StartError::Forked));
        let begun = [begin_anew(), begin_anew()];
        record(3);
        let is_started = start(Features::NO_SAMPLING);
        record(11);
        BYTES.add(2);
        is_refused
            && begun == [Ok(()), Err(AfterForkError::NotForked)]
            && is_started
            && recorded() == 11
            && BYTES.get() == 2
    });
    assert!(is_good, "the child could not record, or has other entries");
    record(4);
    assert_eq!((recorded(), BYTES.get()), (9, 7));
    assert_eq!(begin_anew(), Err(AfterForkError::NotForked));
    record(1);
    assert_eq!(recorded(), 10, "the process itself is not changed");
}

/// A lock of the standard library is held in a few children of this test, and forever there.
#[test]
fn threads_of_the_profiler_begin_in_a_child_that_was_forked_while_threads_of_the_parent_began() {
    own_process!();
    const CHILDREN: usize = 400;
    let _session = RunningSession::with_limit(1 << 20);
    let stop = AtomicBool::new(false);
    let begins_threads = || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::scope(|scope| _ = scope.spawn(|| ()));
        }
    };
    let joins = || {
        let threads = (0..2).map(|_| profiler_sys::spawn_quiet("in the child", || ()));
        threads.flatten().all(|thread| thread.join().is_ok())
    };
    let records = || {
        begin_anew().is_ok() && start(Features::NO_SAMPLING) && {
            record(2);
            recorded() == 2 && joins()
        }
    };
    let good = std::thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(begins_threads));
        let good = (0..CHILDREN)
            .take_while(|_| is_true_in_child(records))
            .count();
        stop.store(true, Ordering::Relaxed);
        good
    });
    assert_eq!(good, CHILDREN, "a child hung or failed");
}

#[test]
fn a_child_of_a_child_that_began_anew_records_nothing_before_it_begins_anew() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let grandchild = || {
        let is_silent = !session::is_active();
        record(3);
        is_silent && begin_anew().is_ok() && start(Features::NO_SAMPLING) && {
            record(6);
            recorded() == 6
        }
    };
    let child = || {
        begin_anew().is_ok() && start(Features::NO_SAMPLING) && {
            record(2);
            is_true_in_child(grandchild) && recorded() == 2
        }
    };
    assert!(is_true_in_child(child));
}

#[cfg(not(profiler_portable))]
#[test]
fn a_child_with_threads_cannot_begin_anew_until_they_end() {
    own_process!();
    let _session = RunningSession::with_limit(1 << 20);
    let child = || {
        let (keeps_it, waits) = std::sync::mpsc::channel::<()>();
        let body = move || {
            let _ = waits.recv();
        };
        let thread = std::thread::Builder::new().spawn(body).unwrap();
        let refused = begin_anew();
        drop(keeps_it);
        thread.join().unwrap();
        // The system may list a thread for a moment after it was waited for.
        refused == Err(AfterForkError::HasThreads) && until(|| begin_anew().is_ok())
    };
    assert!(is_true_in_child(child));
}

#[test]
fn groups_that_were_entered_at_the_fork_are_not_counted_in_the_child() {
    own_process!();
    let _session = RunningSession::with_limit(4 << 20);
    groups::set_probes(Probes::JANK);
    let server = Group::register(GroupKind::Plugin, "of the server");
    let worker = Group::register(GroupKind::Plugin, "of the worker");
    (0..3).for_each(|_| drop(server.enter()));
    let entered = server.enter();
    let ticks = |name: &str| {
        let mut reader = GroupReader::open(session::pool_file().unwrap()).unwrap();
        let found = reader.read().unwrap();
        let rows = found.groups.iter();
        rows.filter(|row| row.definition.name == name)
            .map(|row| row.totals.ticks)
            .sum::<u64>()
    };
    let is_good = is_true_in_child(|| {
        let is_started = begin_anew().is_ok() && start(Features::NO_SAMPLING);
        groups::set_probes(Probes::JANK);
        drop(entered);
        (0..4).for_each(|_| drop(worker.enter()));
        is_started && (ticks("of the worker"), ticks("of the server")) == (4, 0)
    });
    assert!(is_good);
    // In the parent, the guard was dropped with the closure.
    assert_eq!((ticks("of the worker"), ticks("of the server")), (0, 4));
}

/// Does all that a thread of a program can do with the profiler, until `stop`.
fn use_the_profiler(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _label = label!("busy");
        let options = MarkerOptions::default().with_stack(MarkerStack::Full);
        add_untyped_marker("with a stack", &category::OTHER, options);
        drop(Group::register(GroupKind::Plugin, "registers all the time"));
        let short = || marker!("on a short thread");
        let _ = std::thread::Builder::new()
            .spawn(short)
            .map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_child_begins_anew_whatever_the_threads_of_its_parent_were_doing() {
    own_process!();
    let params = SessionParams {
        features: Features::STACK_WALK.with(Features::CPU),
        ..SessionParams::default()
    };
    let _session = RunningSession::start(params);
    let stop = AtomicBool::new(false);
    let mut bad = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| use_the_profiler(&stop));
        }
        for _ in 0..60 {
            bad += u32::from(!is_true_in_child(|| {
                let features = Features::STACK_WALK.with(Features::CPU);
                let is_started = begin_anew().is_ok() && start(features);
                record(50);
                let has_recorded = is_started && recorded() >= 50;
                session::stop(); // waits for the child's own threads
                has_recorded
            }));
            if bad > 0 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(bad, 0, "a child hung or could not record");
}
