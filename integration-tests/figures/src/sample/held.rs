//! How long a sample holds a thread.
//!
//! The thread reads the clock continuously. The gap between two reads that contains a sample's time
//! stamp is the time for which the thread was held, including the signal and the return. Gaps with
//! other causes do not count. A virtual machine lengthens a gap if it gives the processor to
//! another machine at that moment. Therefore, in turn with the sampler, the same thread receives as
//! many signals whose handler only reads the clock (`sample.held_us.bare`). Where this handler
//! alone takes longer than half of the promise, a missed promise is not valid.

#![allow(unsafe_code)] // signals

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::ids::ThreadId;
use profiler_core::time::Timestamp;

use super::session::{Sampling, at_depth, beside_for, goes_on, samples_of};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::monotonic_ns;

const ROUNDS: usize = 5;
const TURN: Duration = Duration::from_millis(1200);
const MS: Duration = Duration::from_millis(1);
const PROMISED_US: f64 = 50.0;
/// Capacity of [`BARE`].
const MAX: usize = 1 << 16;
/// Times at which the bare handler ran.
static BARE: [AtomicU64; MAX] = [const { AtomicU64::new(0) }; MAX];
static BARE_COUNT: AtomicUsize = AtomicUsize::new(0);

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let mut held = Vec::new();
    let mut bare = Vec::new();
    for _ in 0..ROUNDS {
        held.extend(sampled()?);
        bare.extend(signalled()?);
    }
    let [p50, p99] = quantiles(&mut held)?;
    let [bare_p50, bare_p99] = quantiles(&mut bare)?;
    let few = (held.len() < 200).then(|| format!("only {} samples", held.len()));
    let noisy = (bare_p99 > PROMISED_US / 2.0 && p99 > PROMISED_US)
        .then(|| format!("a handler that does nothing holds a thread for {bare_p99:.0} µs here"));
    report.put(Figure::new("sample.held_us.p50", p50, "µs").unless(few.clone()));
    let figure =
        Figure::new("sample.held_us.p99", p99, "µs").promised(Promise::AtMost(PROMISED_US));
    report.put(figure.unless(few).unless(noisy));
    report.put(Figure::new("sample.held_us.bare.p50", bare_p50, "µs"));
    report.put(Figure::new("sample.held_us.bare.p99", bare_p99, "µs"));
    Ok(())
}

fn quantiles(held: &mut [f64]) -> Result<[f64; 2]> {
    held.sort_by(f64::total_cmp);
    let quantile = |part: f64| held.get((held.len() as f64 * part) as usize).copied();
    Ok([
        quantile(0.5).context("no sample lies in a gap")?,
        quantile(0.99).context("no sample lies in a gap")?,
    ])
}

/// Returns how long samples of the profiler's sampler held the thread.
fn sampled() -> Result<Vec<f64>> {
    let sampling = Sampling::start()?;
    let (thread, gaps) = beside_for(TURN, gaps, 10 * MS, |_| {})?;
    let held = samples_of(thread)?
        .iter()
        .filter_map(|sample| gaps.around(sample.at))
        .collect();
    drop(sampling);
    Ok(held)
}

/// Returns how long signals held the thread whose handler only reads the clock.
fn signalled() -> Result<Vec<f64>> {
    handle(note_the_time)?;
    BARE_COUNT.store(0, Ordering::Relaxed);
    let (_, gaps) = beside_for(TURN, gaps, MS, signal)?;
    let count = BARE_COUNT.load(Ordering::Relaxed).min(MAX);
    Ok(BARE[..count]
        .iter()
        .filter_map(|at| gaps.around(at.load(Ordering::Relaxed)))
        .collect())
}

/// Installs a handler for the signal of [`signal`].
pub(super) fn handle(handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: the struct consists of integers and an optional function, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature of a handler without `SA_SIGINFO`.
    let result = unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) };
    ensure!(result == 0);
    Ok(())
}

/// Sends `SIGUSR2` to a thread of this process.
pub(super) fn signal(thread: ThreadId) {
    let pid = std::process::id().cast_signed();
    let tid = thread.get() as libc::pid_t;
    // SAFETY: this process handles the signal, and only a thread of this process can receive it. If
    // that thread has ended, the call fails.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGUSR2) };
}

extern "C" fn note_the_time(_: libc::c_int) {
    if let Some(place) = BARE.get(BARE_COUNT.fetch_add(1, Ordering::Relaxed)) {
        place.store(Timestamp::now().raw(), Ordering::Relaxed);
    }
}

/// The intervals in which a thread that reads the clock continuously was held.
struct Gaps {
    /// Start and end of each interval, in ticks.
    all: Vec<(u64, u64)>,
    ticks_per_us: f64,
}

impl Gaps {
    /// Returns the length of the interval around this moment, in microseconds.
    fn around(&self, at: u64) -> Option<f64> {
        let after = self.all.partition_point(|(start, _)| *start <= at);
        let (start, end) = self
            .all
            .get(after.checked_sub(1)?)
            .filter(|(_, end)| at <= *end)?;
        Some((end - start) as f64 / self.ticks_per_us)
    }
}

fn gaps(stop: &AtomicBool) -> Gaps {
    let begin_ns = monotonic_ns();
    let begin = Timestamp::now().raw();
    let mut all = Vec::with_capacity(100_000);
    let mut last = begin;
    let shortest = 500; // in ticks; only gaps around a sample are used
    at_depth(30, &mut || {
        while goes_on(stop) {
            let now = Timestamp::now().raw();
            if now - last > shortest && all.len() < all.capacity() {
                all.push((last, now));
            }
            last = now;
        }
    });
    let ticks_per_us = (last - begin) as f64 / ((monotonic_ns() - begin_ns) / 1e3);
    Gaps { all, ticks_per_us }
}
