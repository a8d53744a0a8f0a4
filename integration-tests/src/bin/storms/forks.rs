//! Storms of processes: children that share nothing, that share our memory for a moment, that become others.

#![allow(unsafe_code)]

use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};

use crate::goes_on;

/// Forks; the child does a little and ends.
pub(crate) fn fork(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        // SAFETY: the child calls only what may be called after a fork of a process with threads.
        match unsafe { libc::fork() } {
            -1 => anyhow::bail!("no fork: {}", std::io::Error::last_os_error()),
            0 => {
                // What was on its way to the parent must not harm the child.
                // SAFETY: sends a signal to the calling thread.
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
    // SAFETY: waits for our child, and writes into a number that lives through the call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = std::io::Error::last_os_error();
        ensure!(error.raw_os_error() == Some(libc::EINTR), "waiting: {error}");
    }
    ensure!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "the child ended with {status}");
    Ok(())
}

/// The standard library starts programs in a child that shares our memory.
pub(crate) fn vfork(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        ensure!(Command::new("/bin/true").status().context("no /bin/true")?.success(), "/bin/true failed");
    }
    Ok(())
}

/// With code between fork and exec, which the standard library then really forks for.
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
