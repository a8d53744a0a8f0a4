//! What the application does with `SIGUSR2`.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use anyhow::{bail, ensure};

extern "C" fn on_signal(_: libc::c_int) {}

/// Handles, ignores or blocks the signal.
pub(crate) fn treat(how: &str) -> anyhow::Result<()> {
    let handler = on_signal as extern "C" fn(libc::c_int) as *const () as usize;
    let action = match how {
        "handle" => handler,
        "ignore" => libc::SIG_IGN,
        "block" => return block(),
        _ => bail!("{how} is no treatment"),
    };
    // SAFETY: the handler is a static function that does nothing.
    let before = unsafe { libc::signal(libc::SIGUSR2, action) };
    ensure!(before != libc::SIG_ERR, "not changed");
    Ok(())
}

fn block() -> anyhow::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR2) };
    // SAFETY: the set is initialised and lives through the call.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
    ensure!(failed == 0, "not blocked");
    Ok(())
}

/// Sends the signal to this thread, whose handler has then run.
pub(crate) fn send() -> anyhow::Result<()> {
    // SAFETY: sends the calling thread a signal.
    ensure!(unsafe { libc::raise(libc::SIGUSR2) } == 0, "not sent");
    Ok(())
}

/// What the signal does now.
pub(crate) fn action() -> anyhow::Result<&'static str> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only writes the present action, into memory of its type.
    let failed = unsafe { libc::sigaction(libc::SIGUSR2, std::ptr::null(), action.as_mut_ptr()) };
    ensure!(failed == 0, "not told");
    // SAFETY: written by the call; zeroed before it.
    let handler = unsafe { action.assume_init() }.sa_sigaction;
    Ok(match handler {
        libc::SIG_DFL => "default",
        libc::SIG_IGN => "ignored",
        _ => "handled",
    })
}
