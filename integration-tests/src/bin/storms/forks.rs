//! Storms of child processes: forks, children that share the memory of this process for a moment,
//! and children that execute another program.

#![allow(unsafe_code)]

use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use crate::goes_on;

/// Forks a child that sends itself the sampler's signal and ends.
pub(crate) fn fork(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        // SAFETY: the child calls only async-signal-safe functions.
        match unsafe { libc::fork() } {
            -1 => anyhow::bail!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                // A signal that was meant for the parent must not harm the child.
                // SAFETY: takes only a number.
                unsafe { libc::raise(libc::SIGURG) };
                // SAFETY: ends the child.
                unsafe { libc::_exit(7) };
            }
            child => wait_for(child)?,
        }
    }
    Ok(())
}

fn wait_for(child: libc::pid_t) -> Result<()> {
    let mut status = 0;
    // SAFETY: waits for a child, and writes its status to a local.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = std::io::Error::last_os_error();
        ensure!(
            error.raw_os_error() == Some(libc::EINTR),
            "waiting: {error}"
        );
    }
    ensure!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "the child ended with {status}"
    );
    Ok(())
}

/// Starts programs. The standard library does so in a child that shares the memory of this process.
pub(crate) fn vfork(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        ensure!(
            Command::new("/bin/true")
                .status()
                .context("no /bin/true")?
                .success(),
            "/bin/true failed"
        );
    }
    Ok(())
}

/// Starts programs with code between fork and exec, for which the standard library really forks.
pub(crate) fn exec(stop: &AtomicBool) -> Result<()> {
    use std::os::unix::process::CommandExt;
    while goes_on(stop) {
        let mut command = Command::new("/bin/true");
        // SAFETY: the closure does nothing.
        unsafe { command.pre_exec(|| Ok(())) };
        ensure!(command.status()?.success(), "/bin/true failed");
    }
    Ok(())
}
