//! A program that handles the signal of the sampler itself, and ends its own waits with it.
//!
//! `own-signal ORDER FLAGS`: the handler is installed before the profiler (`handler-first`) or
//! after it, with or without `SA_RESTART`. A thread waits in a `read`, and gets the signal. After
//! that there is data to read. Prints the result of the `read`: `eintr` or `data`.

#![allow(unsafe_code)]

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use integration_tests::own::start_sampling;
use integration_tests::patience::until;
use profiler_core::session;

/// Which of the two is installed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Handler,
    Profiler,
}

impl std::str::FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "handler-first" => Ok(Self::Handler),
            "profiler-first" => Ok(Self::Profiler),
            _ => bail!("which order is {text}?"),
        }
    }
}

/// The thread that reads.
static READER: AtomicU64 = AtomicU64::new(0);
/// Signals that the reading thread received.
static HEARD: AtomicU64 = AtomicU64::new(0);
/// Signals that arrived with another mask than the program's.
static WRONGLY_MASKED: AtomicU64 = AtomicU64::new(0);

extern "C" fn hear(_: libc::c_int) {
    let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null new mask only reads the current one.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: the set was zeroed, and the call above has written it.
    let blocks = |signal| unsafe { libc::sigismember(mask.as_ptr(), signal) == 1 };
    let as_asked = blocks(libc::SIGURG) && blocks(libc::SIGUSR2) && !blocks(libc::SIGUSR1);
    WRONGLY_MASKED.fetch_add(u64::from(!as_asked), Ordering::SeqCst);
    if profiler_core::thread::current().get() == READER.load(Ordering::SeqCst) {
        HEARD.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn run(order: Order, restarts: bool) -> Result<()> {
    if order == Order::Handler {
        install(restarts)?;
    }
    start_sampling()?;
    ensure!(
        until(session::wait_one_periodic_sampling),
        "nothing is sampled"
    );
    if order == Order::Profiler {
        install(restarts)?;
    }
    let result = interrupt_a_read()?;
    ensure!(
        WRONGLY_MASKED.load(Ordering::SeqCst) == 0,
        "the handler ran with another mask than its own"
    );
    println!("{result}");
    Ok(())
}

fn install(restarts: bool) -> Result<()> {
    // SAFETY: all zeros are an action without flags and with an empty mask.
    let mut own: libc::sigaction = unsafe { std::mem::zeroed() };
    own.sa_sigaction = hear as *const () as usize;
    own.sa_flags = if restarts { libc::SA_RESTART } else { 0 };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(&raw mut own.sa_mask, libc::SIGUSR2) };
    // SAFETY: the handler is a static function, and the structure lives through the call.
    let result = unsafe { libc::sigaction(libc::SIGURG, &raw const own, std::ptr::null_mut()) };
    ensure!(result == 0, "the handler was not installed");
    Ok(())
}

fn interrupt_a_read() -> Result<&'static str> {
    let (reader, mut writer) = std::io::pipe()?;
    let source = reader.as_raw_fd(); // open until the write below
    #[allow(clippy::disallowed_methods)] // a thread of the host, which receives signals
    let thread = std::thread::spawn(move || {
        READER.store(profiler_core::thread::current().get(), Ordering::SeqCst);
        let mut byte = 0_u8;
        // SAFETY: reads at most one byte into a local.
        unsafe { libc::read(source, (&raw mut byte).cast(), 1) }
    });
    ensure!(until(reads), "the thread does not read");
    // SAFETY: the thread is joined below.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGURG) };
    ensure!(
        until(|| HEARD.load(Ordering::SeqCst) > 0),
        "the signal does not arrive"
    );
    // The call has ended, or it continues.
    ensure!(
        until(|| thread.is_finished() || reads()),
        "the thread neither reads nor ends"
    );
    let is_over = thread.is_finished();
    writer.write_all(b"x")?;
    drop(reader);
    let got = thread.join().ok().context("the reading thread panicked")?;
    match (is_over, got) {
        (true, -1) => Ok("eintr"),
        (false, 1) => Ok("data"),
        other => bail!("the read gave {other:?}"),
    }
}

/// Returns whether the reading thread waits in its `read`, as the system reports it.
fn reads() -> bool {
    let path = format!("/proc/self/task/{}/syscall", READER.load(Ordering::SeqCst));
    let call = std::fs::read_to_string(path).unwrap_or_default();
    call.split(' ').next() == Some(&libc::SYS_read.to_string())
}
