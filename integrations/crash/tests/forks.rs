//! Forked processes, which record nothing.

use std::process::exit;

use test_support::own_process;

use crate::children::{crashed, ran};
use crate::handlers::handle;
use crate::ways::{fall, raise};

/// Forks; the forked process runs `body`. Returns its status.
fn forked(body: impl FnOnce()) -> i32 {
    // SAFETY: the forked process only crashes or exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        body();
        // SAFETY: ends the process.
        unsafe { libc::_exit(9) };
    }
    let mut status = 0;
    // SAFETY: waits for the process that was forked.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

#[test]
fn a_crash_of_a_forked_process_ends_it_and_is_not_that_of_its_parent() {
    own_process!();
    let ended = ran(|| {
        let status = forked(|| fall(0xa0));
        let is_crash = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
        let status = forked(|| std::process::abort());
        let is_abort = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
        exit(if is_crash && is_abort { 5 } else { 6 });
    });
    assert_eq!(
        (ended.status.code(), ended.verdict.as_str()),
        (Some(5), "complete")
    );
    assert!(ended.crashes().is_empty());
}

extern "C" fn exit_42(_: libc::c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(42) };
}

#[test]
fn an_earlier_handler_is_called_in_a_forked_process() {
    own_process!();
    let handler = exit_42 as *const () as usize;
    let ended = crashed(
        || handle(libc::SIGSEGV, handler, libc::SA_ONSTACK),
        || {
            let status = forked(|| fall(0xa0));
            let is_handled = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42;
            exit(if is_handled { 5 } else { 6 });
        },
    );
    assert_eq!(ended.status.code(), Some(5));
    assert!(ended.crashes().is_empty());
}

/// Crashes, as the child of a `vfork`.
extern "C" fn fall_in_child(_: *mut libc::c_void) -> libc::c_int {
    fall(0xa8);
    0
}

#[test]
fn a_crash_of_a_process_that_shares_the_memory_is_not_recorded() {
    own_process!();
    let ended = crashed(
        || handle(libc::SIGSEGV, libc::SIG_DFL, 0),
        || {
            let stack = Box::leak(vec![0_u128; 16 * 1024].into_boxed_slice());
            let top = stack.as_mut_ptr_range().end.cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: as `vfork`, and the child has a stack of its own.
            let child = unsafe { libc::clone(fall_in_child, top, flags, std::ptr::null_mut()) };
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: waits for the child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            let is_crash = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
            exit(if is_crash { 5 } else { 6 });
        },
    );
    assert_eq!(ended.status.code(), Some(5));
    assert!(ended.crashes().is_empty());
}

/// The status of a process with the number 1; `None` if the system does not allow it.
fn first_process(body: impl FnOnce()) -> Option<i32> {
    // SAFETY: the next forked process is the first one of a namespace.
    let failed = unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0;
    (!failed).then(|| forked(body))
}

#[test]
fn a_process_with_the_number_1_dies_of_faults_only() {
    own_process!();
    let check = |body: fn(), is_right: fn(i32) -> bool| {
        // The namespace ends with its first process, so each needs a process that makes it.
        let status = forked(|| {
            let is_right = first_process(body).is_none_or(is_right);
            // SAFETY: ends the process.
            unsafe { libc::_exit(if is_right { 5 } else { 6 }) };
        });
        libc::WEXITSTATUS(status) == 5
    };
    let ended = ran(|| {
        let is_fault = check(
            || crate::ways::crash("illegal"),
            |status| libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGILL,
        );
        let is_trap = check(
            || crate::ways::crash("trap"),
            |status| libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 128 + libc::SIGTRAP,
        );
        let is_dropped = check(
            || assert_eq!(raise(libc::SIGILL), 0),
            |status| libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 9,
        );
        let all = [is_fault, is_trap, is_dropped];
        exit(
            all.iter()
                .fold(0, |code, is_right| code * 2 + i32::from(*is_right)),
        );
    });
    assert_eq!(ended.status.code(), Some(7));
}

#[test]
fn a_crash_of_the_parent_after_a_fork_is_recorded() {
    own_process!();
    let ended = crashed(
        || {},
        || {
            let status = forked(|| {});
            assert_eq!(libc::WEXITSTATUS(status), 9);
            fall(0xb0);
        },
    );
    assert_eq!(ended.crash().address, "0xb0");
}
