//! Tests of forked children of a process that has registered groups and never had a session, such
//! as a server that forks before its workers record.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use profiler_core::groups::{self, Group, GroupKind, InGroups, Probes};
use profiler_core::internal::reader::groups::GroupReader;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::own_process;
use test_support::patience::LONG;

/// Waits for a child, and kills it if it does not exit in time. Returns whether it exited with code
/// 0.
pub(crate) fn exits_well(pid: i32) -> bool {
    #[allow(clippy::disallowed_methods)] // a stopwatch
    let begin = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the child is ours, no other code waits for it, and `status` is a live variable.
        if unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == pid {
            return status == 0;
        }
        if begin.elapsed() > LONG {
            // SAFETY: the child has not been waited for, so the number still belongs to it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            return false;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_forked_child_does_not_wait_for_a_registry_that_another_thread_had_locked() {
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
            // SAFETY: the child registers groups and exits. It allocates with the C library's
            // allocator, which works in a forked child.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                drop(Group::register(GroupKind::Plugin, "in the child"));
                drop(async {}.in_group(&STATIC));
                drop(STATIC.clone());
                // SAFETY: `_exit` has no preconditions; it ends the process at once.
                unsafe { libc::_exit(0) };
            }
            bad += u32::from(!exits_well(pid));
            if bad > 0 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(bad, 0, "a child hung or failed");
}

/// The work of the child: records in its own session. Returns its exit code, which is 0 if the
/// totals are right and its own forked child is refused a session.
fn records() -> i32 {
    let group = Group::register(GroupKind::Plugin, "of the worker");
    if session::start(SessionParams::default(), StartOptions::default()).is_err() {
        return 2;
    }
    groups::set_probes(Probes::JANK);
    (0..3).for_each(|_| drop(group.enter()));
    let found = session::pool_file()
        .ok()
        .and_then(|file| GroupReader::open(file).ok());
    let found = found.and_then(|mut reader| reader.read().ok());
    let ticks = |name: &str| {
        let rows = found.iter().flat_map(|all| &all.groups);
        rows.filter(|row| row.definition.name == name)
            .map(|row| row.totals.ticks)
            .sum::<u64>()
    };
    let is_right = (ticks("of the worker"), ticks("of the server")) == (3, 0);
    session::stop();
    // SAFETY: this child requests a session, which is refused before any other work, and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let is_refused = session::start(SessionParams::default(), StartOptions::default()).is_err();
        // SAFETY: `_exit` has no preconditions; it ends the process at once.
        unsafe { libc::_exit(i32::from(!is_refused)) };
    }
    if is_right && exits_well(pid) { 0 } else { 3 }
}

#[test]
fn a_forked_child_of_a_process_without_a_session_records_in_its_own_session() {
    own_process!();
    drop(Group::register(GroupKind::Plugin, "of the server"));
    // SAFETY: the child starts a session and exits. The session starts threads and allocates with
    // the C library, where both work in a forked child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = records();
        // SAFETY: `_exit` has no preconditions; it ends the process at once.
        unsafe { libc::_exit(code) };
    }
    assert!(exits_well(pid), "the child could not record");
}
