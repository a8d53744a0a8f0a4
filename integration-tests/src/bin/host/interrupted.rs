//! Calls the code of the profiler that runs in `exit` and around a fork, in a signal handler that
//! interrupted the allocator.
//!
//! `interrupted TIMES`: a thread that allocates and frees memory gets TIMES signals, while another
//! thread records. Each handler also forks with the bare system call. That child can record
//! nothing. Prints how many handlers ran, and how many of them allocated.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Result, ensure};
use integration_tests::counting::{CountingAllocator, allocations_of};
use integration_tests::exits;
use integration_tests::patience::until;
use profiler_core::internal::pool::PoolSpec;
use profiler_core::marker;
use profiler_core::session::{self, SessionParams, StartOptions};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

static HANDLED: AtomicU64 = AtomicU64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static STRANGE: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(times: u64) -> Result<()> {
    start()?;
    exits::handle(libc::SIGUSR1, handler);
    #[allow(clippy::disallowed_methods)] // threads of the host, which receive signals
    let recorder = std::thread::spawn(record);
    #[allow(clippy::disallowed_methods)] // as above
    let churner = std::thread::spawn(churn);
    use std::os::unix::thread::JoinHandleExt;
    for sent in 1..=times {
        // SAFETY: the thread runs until it is joined below.
        unsafe { libc::pthread_kill(churner.as_pthread_t(), libc::SIGUSR1) };
        ensure!(
            until(|| HANDLED.load(Ordering::Acquire) >= sent),
            "handler {sent} does not return"
        );
    }
    STOP.store(true, Ordering::Relaxed);
    ensure!(
        recorder.join().is_ok() && churner.join().is_ok(),
        "a thread panicked"
    );
    println!(
        "handled {} allocations {} strange {}",
        HANDLED.load(Ordering::Acquire),
        ALLOCATIONS.load(Ordering::Acquire),
        STRANGE.load(Ordering::Acquire)
    );
    Ok(())
}

/// Starts a session in an attached pool, because only an attached pool is closed at an exit.
fn start() -> Result<()> {
    let params = SessionParams::default();
    let spec = PoolSpec::starting_now(params.clone())?;
    session::attach(spec.create_pool()?)?;
    session::start(params, StartOptions::default())?;
    Ok(())
}

fn record() {
    while !STOP.load(Ordering::Relaxed) {
        marker!("recorded");
    }
}

fn churn() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for round in 0_usize.. {
        if STOP.load(Ordering::Relaxed) {
            return;
        }
        kept.push(black_box(Vec::with_capacity(16 << (round % 13))));
        if round.is_multiple_of(64) {
            kept.clear();
        }
        marker!("churned");
    }
}

extern "C" fn handler(_: libc::c_int) {
    let handled = HANDLED.load(Ordering::Relaxed);
    let allocations = allocations_of(|| {
        session::pass_through_fork_handlers();
        STRANGE.fetch_add(u64::from(!fork_ends_well()), Ordering::Relaxed);
        // The first forks happen while threads record, because the pool is still open.
        if handled >= 100 {
            session::close_at_exit();
        }
    });
    ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
    HANDLED.fetch_add(1, Ordering::Release);
}

/// Forks a process that tries to record and to close the pool. Returns whether neither has an
/// effect.
fn fork_ends_well() -> bool {
    // SAFETY: a fork without the C library's handlers, which take the allocator's lock.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if pid == 0 {
        marker!("in the fork");
        session::close_at_exit();
        // SAFETY: ends the process, so nothing is used afterwards.
        unsafe { libc::_exit(i32::from(session::is_active())) };
    }
    let mut status = -1;
    let pid = libc::pid_t::try_from(pid).unwrap_or(-1);
    // SAFETY: waits for the process forked above, and writes its status to a local.
    unsafe { libc::waitpid(pid, &raw mut status, 0) == pid && status == 0 }
}
