//! Forked processes of the application.

#![allow(unsafe_code)]

use anyhow::ensure;

use crate::{Begun, signals};

/// Forks a process that ends as the application does: it drops its copy of what the application
/// keeps, and exits. Returns its status.
pub(crate) fn fork_and_end(begun: &mut Begun) -> anyhow::Result<i32> {
    fork(|| {
        // SAFETY: ends this process if its own end takes long, as only a wait for the profile does.
        unsafe { libc::alarm(60) };
        *begun = Begun::Init;
        std::process::exit(0);
    })
}

/// Forks a process that sends itself SIGUSR2. Returns the signal that has ended it.
pub(crate) fn fork_and_signal() -> anyhow::Result<Option<i32>> {
    let status = fork(|| drop(signals::send()))?;
    Ok(libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)))
}

/// Forks a process that runs this and then ends, and waits for it.
fn fork(body: impl FnOnce()) -> anyhow::Result<i32> {
    // SAFETY: the forked process allocates and ends, which works with the C libraries of the tests.
    let child = unsafe { libc::fork() };
    if child == 0 {
        body();
        // SAFETY: ends the forked process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the status lives through the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(waited == child, "not waited for");
    Ok(status)
}
