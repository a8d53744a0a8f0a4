//! What the program inherits: the same as without this command.
//!
//! Used by `record` around the start of the program. The command itself catches all signals, needs
//! the end of its children, and has `/dev/null` where its standard streams were closed. Between
//! fork and exec, the program gets back what the command had when it began: the actions and the
//! mask of signals, and the closed streams. Invariants: what runs there only makes system calls; a
//! signal that arrives meanwhile has the effect that it has on the program.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::{at_start, signals};

/// The time of the start of the program. No signal is handled in the calling thread until this is
/// dropped.
#[derive(Debug)]
pub(super) struct Inheritance {
    /// The mask before, without the signals that this command catches.
    afterwards: libc::sigset_t,
}

impl Inheritance {
    /// Makes `command` start its program with what this process had when it began. `command` must
    /// be started by the calling thread, before this is dropped.
    pub(super) fn prepare(command: &mut Command) -> io::Result<Self> {
        if at_start::ignored(libc::SIGCHLD) {
            // Otherwise the system keeps no exit status.
            // SAFETY: the default action refers to no function.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        let mask = change_mask(libc::SIG_BLOCK, &full())?;
        let give_back = move || {
            for signal in signals::caught().chain([libc::SIGCHLD]) {
                signals::restore(signal);
            }
            for stream in at_start::closed_streams() {
                // SAFETY: no Rust code uses the stream in this process, which is about to execute
                // the program.
                unsafe { libc::close(stream) };
            }
            change_mask(libc::SIG_SETMASK, &mask).map(|_| ())
        };
        // SAFETY: the closure only makes system calls; it neither allocates nor locks.
        unsafe { command.pre_exec(give_back) };
        Ok(Self {
            afterwards: without(mask, signals::caught()),
        })
    }
}

impl Drop for Inheritance {
    /// Gives the calling thread its mask back, without the signals that this command catches: those
    /// that were blocked when it began are passed on, too.
    fn drop(&mut self) {
        // An error is not possible: the arguments are valid.
        let _ = change_mask(libc::SIG_SETMASK, &self.afterwards);
    }
}

/// Changes the mask of the calling thread. Returns the mask before.
pub(super) fn change_mask(how: i32, set: &libc::sigset_t) -> io::Result<libc::sigset_t> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets live through the call.
    match unsafe { libc::pthread_sigmask(how, set, before.as_mut_ptr()) } {
        // SAFETY: the call has initialised the set.
        0 => Ok(unsafe { before.assume_init() }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// All signals.
pub(super) fn full() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call initialises the set, which lives through it.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: initialised.
    unsafe { set.assume_init() }
}

/// The set without these signals.
fn without(mut set: libc::sigset_t, signals: impl Iterator<Item = i32>) -> libc::sigset_t {
    for signal in signals {
        // SAFETY: the set is initialised.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}
