//! Threads that wait in a loop by every call that a signal would end: none may ever see `EINTR`.

#![allow(unsafe_code)]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::goes_on;

/// Waits for about 7 ms; says whether that was cut short.
type Wait = Box<dyn FnMut() -> bool>;

const WAITS: &[fn() -> Result<Wait>] = &[poll, epoll_wait, nanosleep, recv, sem_timedwait];

/// One thread for each call.
pub(crate) fn sleepers(stop: &AtomicBool) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = WAITS.iter().map(|wait| scope.spawn(|| wait_often(*wait, stop))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a sleeper panicked"))?)
    })
}

fn wait_often(wait: fn() -> Result<Wait>, stop: &AtomicBool) -> Result<()> {
    let mut wait = wait()?;
    let (mut interrupted, mut waits) = (0_u64, 0_u64);
    while goes_on(stop) {
        interrupted += u64::from(wait());
        waits += 1;
    }
    // A thread that begins to wait between the look at it and the signal is interrupted: on a busy machine, where
    // the sampler may lose the processor just there, now and then. Few waits, as on such a machine, say nothing alone.
    eprintln!("{interrupted} of {waits} waits were interrupted");
    ensure!(interrupted <= 3 + waits / 50, "{interrupted} of {waits} waits were interrupted");
    Ok(())
}

fn was_interrupted(result: libc::c_int) -> bool {
    result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

fn poll() -> Result<Wait> {
    // SAFETY: no descriptors, so the pointer is not used.
    Ok(Box::new(|| was_interrupted(unsafe { libc::poll(std::ptr::null_mut(), 0, 7) })))
}

fn epoll_wait() -> Result<Wait> {
    // SAFETY: takes no memory. Never closed: the process ends with the storm.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    ensure!(epoll >= 0, "no epoll");
    Ok(Box::new(move || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, which lives through the call.
        was_interrupted(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 7) })
    }))
}

fn nanosleep() -> Result<Wait> {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 7_000_000 };
    // SAFETY: reads a timespec that lives through the call.
    Ok(Box::new(move || was_interrupted(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) })))
}

/// Waits for a futex, with a timeout.
fn sem_timedwait() -> Result<Wait> {
    // SAFETY: all zeros are memory for a semaphore. Never given back: the process ends with the storm.
    let semaphore: &mut libc::sem_t = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    // SAFETY: initialises it, with nothing in it.
    ensure!(unsafe { libc::sem_init(semaphore, 0, 0) } == 0, "no semaphore");
    Ok(Box::new(move || {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes into a timespec that lives through the call.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
        until.tv_nsec += 7_000_000;
        (until.tv_sec, until.tv_nsec) =
            (until.tv_sec + until.tv_nsec / 1_000_000_000, until.tv_nsec % 1_000_000_000);
        // SAFETY: initialised above; reads a timespec that lives through the call.
        was_interrupted(unsafe { libc::sem_timedwait(semaphore, &raw const until) })
    }))
}

fn recv() -> Result<Wait> {
    let (mut end, other) = UnixStream::pair()?;
    end.set_read_timeout(Some(Duration::from_millis(7)))?;
    Ok(Box::new(move || {
        let _open = &other;
        let error = end.read(&mut [0; 8]).err();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
    }))
}
