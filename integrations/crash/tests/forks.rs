//! Forked processes, which record nothing.

use std::process::exit;

use test_support::own_process;

use crate::children::{crashed, ran};
use crate::ways::fall;

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
