//! Forked children of a process that knows groups and never had a session: a server that forks before its workers record.
//! Alone in its process for that.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use profiler_core::groups::{self, Group, GroupKind, InGroups, Probes};
use profiler_core::internal::reader::groups::GroupReader;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::own_process;
use test_support::patience::LONG;

/// Waits for a child; ends it if it does not end by itself. Whether it came to a good end.
fn ends_well(pid: i32) -> bool {
    #[allow(clippy::disallowed_methods)] // a stopwatch
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: asks for a child of ours that nobody else waits for.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid {
            return status == 0;
        }
        if begin.elapsed() > LONG {
            // SAFETY: it has not been waited for, so the number is still its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above; it ends now.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            return false;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_forked_child_does_not_wait_for_a_registry_that_another_thread_had() {
    own_process!();
    static STATIC: Group = Group::named("plugin:in the child");
    let stop = AtomicBool::new(false);
    let mut bad = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(Group::register(GroupKind::Plugin, "registers all the time"));
                }
            });
        }
        for _ in 0..200 {
            // SAFETY: the child registers, which allocates by the C library's allocator, and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                drop(Group::register(GroupKind::Plugin, "in the child"));
                drop(async {}.in_group(&STATIC));
                drop(STATIC.clone());
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) };
            }
            bad += u32::from(!ends_well(pid));
            if bad > 0 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(bad, 0, "a child hung");
}

/// What the child does: whether it recorded in a session of its own. What it returns is its exit code.
fn records() -> i32 {
    let group = Group::register(GroupKind::Plugin, "of the worker");
    if session::start(SessionParams::default(), StartOptions::default()).is_err() {
        return 2;
    }
    groups::set_probes(Probes::JANK);
    (0..3).for_each(|_| drop(group.enter()));
    let found = session::pool_file().ok().and_then(|file| GroupReader::open(file).ok());
    let found = found.and_then(|mut reader| reader.read().ok());
    let ticks = |name: &str| {
        let rows = found.iter().flat_map(|all| &all.groups);
        rows.filter(|row| row.definition.name == name).map(|row| row.totals.ticks).sum::<u64>()
    };
    let is_right = (ticks("of the worker"), ticks("of the server")) == (3, 0);
    session::stop();
    // Its own child cannot.
    // SAFETY: that one asks for a session, which is refused before anything else, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let is_refused = session::start(SessionParams::default(), StartOptions::default()).is_err();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(i32::from(!is_refused)) };
    }
    if is_right && ends_well(pid) { 0 } else { 3 }
}

#[test]
fn a_forked_child_of_a_process_that_only_knows_groups_records_in_a_session_of_its_own() {
    own_process!();
    drop(Group::register(GroupKind::Plugin, "of the server"));
    // SAFETY: the child begins a session, for which it starts threads and allocates by the C library's ways, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = records();
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(code) };
    }
    assert!(ends_well(pid), "the child could not record");
}
