//! Repeats blocking calls in a sampled process, and counts how many end with `EINTR`.
//!
//! Used by the storm `interrupted` for the test and by a role of `figures`, each in a separate
//! process. For each kind of [`calls`], one thread computes for some microseconds and waits,
//! alternately. A partner ends the waits. Before that, the process enters a [`HostSetup`], which
//! determines what the system reports to the sampler about threads.

mod calls;
mod scenes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::sampler::SamplingStats;
use profiler_core::session;

pub use self::scenes::HostSetup;

use self::calls::{LockFile, Partner, Wait, all};
use crate::own::start_sampling;
use crate::patience::Stopwatch;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// For each kind of call: its name, the number of calls, and how many ended with `EINTR`.
    pub kinds: Vec<(&'static str, u64, u64)>,
    /// The statistics of the sampler.
    pub stats: SamplingStats,
}

impl Outcome {
    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.kinds.iter().map(|(_, calls, _)| calls).sum()
    }

    /// Returns the number of calls that ended with `EINTR`.
    pub fn interrupted(&self) -> u64 {
        self.kinds.iter().map(|(.., interrupted)| interrupted).sum()
    }
}

/// Makes at least `least` calls in a sampled process in this scene, but stops after `patience`.
///
/// # Errors
/// If the process cannot enter the scene. [`HostSetup::missing`] tells beforehand whether the
/// process has the rights for it.
pub fn play(scene: HostSetup, least: u64, patience: Duration) -> Result<Outcome> {
    let lock_file = LockFile::create()?;
    scene.prepare()?;
    start_sampling()?;
    let (waits, partner) = all(lock_file)?;
    scene.enter()?;
    let stop = AtomicBool::new(false);
    let made = AtomicU64::new(0);
    let kinds = std::thread::scope(|scope| {
        let stop = &stop;
        let made = &made;
        let workers: Vec<_> = waits
            .into_iter()
            .map(|(name, wait)| (name, scope.spawn(move || wait_often(wait, stop, made))))
            .collect();
        scope.spawn(move || compute_until(stop));
        let waker = scope.spawn(move || wake_until(partner));
        let watch = Stopwatch::start();
        while made.load(Ordering::Relaxed) < least && watch.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let counts = workers.into_iter().map(|(name, worker)| {
            let (calls, interrupted) = worker
                .join()
                .ok()
                .context("a thread that waits has panicked")?;
            Ok((name, calls, interrupted))
        });
        let kinds: Result<Vec<_>> = counts.collect();
        END.store(true, Ordering::Relaxed);
        ensure!(waker.join().is_ok(), "the partner has panicked");
        kinds
    })?;
    let stats = session::sampling_stats().context("nothing was sampled")?;
    session::stop();
    Ok(Outcome { kinds, stats })
}

/// Ends the partner, after all threads have stopped waiting.
static END: AtomicBool = AtomicBool::new(false);

/// Computes and waits alternately. Returns the number of calls, and how many ended with `EINTR`.
fn wait_often(mut wait: Wait, stop: &AtomicBool, made: &AtomicU64) -> (u64, u64) {
    // Then the sampler knows the thread even if the system lists no threads.
    profiler_core::marker!("waits");
    let mut calls = 0;
    let mut interrupted = 0;
    while !stop.load(Ordering::Relaxed) {
        compute_us(60 + calls % 41);
        interrupted += u64::from(wait());
        calls += 1;
        made.fetch_add(1, Ordering::Relaxed);
    }
    (calls, interrupted)
}

fn wake_until(mut partner: Partner) {
    while !END.load(Ordering::Relaxed) {
        partner.wake_all();
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Computes without waiting. The sampler can sample this thread if the system reports that it runs.
fn compute_until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        compute_us(1000);
    }
}

/// Computes until this thread has used `us` microseconds of processor time.
fn compute_us(us: u64) {
    let until = own_cpu() + Duration::from_micros(us);
    while own_cpu() < until {
        std::hint::spin_loop();
    }
}

fn own_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
