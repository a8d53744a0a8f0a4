//! Threads that wait in a loop with each call that a signal can interrupt: only few waits may end
//! with `EINTR`.

#![allow(unsafe_code)]

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::goes_on;

/// Waits for about 7 ms. Returns whether the wait ended with `EINTR`.
type Wait = Box<dyn FnMut() -> bool>;

const WAITS: &[fn() -> Result<Wait>] = &[poll, epoll_wait, nanosleep, recv, sem_timedwait];

/// Runs one thread for each call.
pub(crate) fn sleepers(stop: &AtomicBool) -> Result<()> {
    std::thread::scope(|scope| {
        let sleepers: Vec<_> = WAITS
            .iter()
            .map(|wait| scope.spawn(|| wait_often(*wait, stop)))
            .collect();
        sleepers.into_iter().try_for_each(|sleeper| {
            sleeper
                .join()
                .map_err(|_| anyhow::anyhow!("a sleeper panicked"))?
        })
    })
}

fn wait_often(wait: fn() -> Result<Wait>, stop: &AtomicBool) -> Result<()> {
    let mut wait = wait()?;
    let mut interrupted = 0_u64;
    let mut waits = 0_u64;
    while goes_on(stop) {
        interrupted += u64::from(wait());
        waits += 1;
    }
    // A thread is interrupted if it begins to wait after the sampler has read its state and before
    // the signal arrives. On a busy machine, where the sampler may lose the processor in between,
    // this happens sometimes. Three interruptions are always allowed, because such a machine makes
    // only few waits.
    eprintln!("{interrupted} of {waits} waits were interrupted");
    ensure!(
        interrupted <= 3 + waits / 50,
        "{interrupted} of {waits} waits were interrupted"
    );
    Ok(())
}

fn was_interrupted(result: libc::c_int) -> bool {
    result < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

fn poll() -> Result<Wait> {
    Ok(Box::new(|| {
        // SAFETY: no descriptors, so the pointer is not used.
        was_interrupted(unsafe { libc::poll(std::ptr::null_mut(), 0, 7) })
    }))
}

fn epoll_wait() -> Result<Wait> {
    // SAFETY: takes no pointer. The descriptor stays open until the process ends with the storm.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    ensure!(epoll >= 0, "no epoll");
    Ok(Box::new(move || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: writes one event into memory that lives through the call.
        was_interrupted(unsafe { libc::epoll_wait(epoll, &raw mut event, 1, 7) })
    }))
}

fn nanosleep() -> Result<Wait> {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 7_000_000,
    };
    Ok(Box::new(move || {
        // SAFETY: reads a timespec that lives through the call.
        was_interrupted(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) })
    }))
}

/// Waits for a futex, with a timeout.
fn sem_timedwait() -> Result<Wait> {
    // SAFETY: all zeros are valid memory for a semaphore. It is never freed, because the process
    // ends with the storm.
    let semaphore: &mut libc::sem_t = Box::leak(Box::new(unsafe { std::mem::zeroed() }));
    // SAFETY: initialises memory of the right type with the value 0.
    let result = unsafe { libc::sem_init(semaphore, 0, 0) };
    ensure!(result == 0, "no semaphore");
    Ok(Box::new(move || {
        let mut until = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes into a timespec that lives through the call.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
        until.tv_nsec += 7_000_000;
        (until.tv_sec, until.tv_nsec) = (
            until.tv_sec + until.tv_nsec / 1_000_000_000,
            until.tv_nsec % 1_000_000_000,
        );
        // SAFETY: initialised above; reads a timespec that lives through the call.
        was_interrupted(unsafe { libc::sem_timedwait(semaphore, &raw const until) })
    }))
}

fn recv() -> Result<Wait> {
    let (mut end, other) = UnixStream::pair()?;
    end.set_read_timeout(Some(Duration::from_millis(7)))?;
    Ok(Box::new(move || {
        let _open = &other; // moved into the closure, so that the socket stays open
        let error = end.read(&mut [0; 8]).err();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
    }))
}
