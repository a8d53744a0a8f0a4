//! Threads that wait in a loop by every call that a signal would end: none may ever see `EINTR`.

#![allow(unsafe_code)]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::goes_on;

/// Waits for about 7 ms; says whether that was cut short.
type Wait = fn() -> Result<bool>;

const WAITS: &[Wait] = &[poll, epoll_wait, nanosleep, recv];

/// One thread for each call.
pub(crate) fn sleepers(stop: &AtomicBool) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = WAITS.iter().map(|wait| scope.spawn(|| wait_often(*wait, stop))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a sleeper panicked"))?)
    })
}

fn wait_often(wait: Wait, stop: &AtomicBool) -> Result<()> {
    let (mut interrupted, mut waits) = (0_u64, 0_u64);
    while goes_on(stop) {
        interrupted += u64::from(wait()?);
        waits += 1;
    }
    ensure!(interrupted == 0, "{interrupted} of {waits} waits were interrupted");
    Ok(())
}

fn was_interrupted(result: libc::c_int) -> bool {
    result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

fn poll() -> Result<bool> {
    // SAFETY: no descriptors, so the pointer is not used.
    Ok(was_interrupted(unsafe { libc::poll(std::ptr::null_mut(), 0, 7) }))
}

fn epoll_wait() -> Result<bool> {
    // SAFETY: takes no memory.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: room for one event, which lives through the call.
    let interrupted = was_interrupted(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 7) });
    // SAFETY: ours, and not used any more.
    unsafe { libc::close(epoll) };
    Ok(interrupted)
}

fn nanosleep() -> Result<bool> {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 7_000_000 };
    // SAFETY: reads a timespec that lives through the call.
    Ok(was_interrupted(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }))
}

fn recv() -> Result<bool> {
    let (mut end, _other) = UnixStream::pair()?;
    end.set_read_timeout(Some(Duration::from_millis(7)))?;
    let error = end.read(&mut [0; 8]).err();
    Ok(error.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted))
}
