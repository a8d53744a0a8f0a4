//! A program that does one thing repeatedly while it is sampled at 1 kHz: `storms NAME SECONDS`.
//!
//! Run by `tests/sampling_storms.rs`. Prints one line: `ok` and the statistics of the sampler. If a
//! storm finds a violation, the program prints an error and exits with code 1. The test also checks
//! that the program ends at all, because a sampler that waits for a lock could block it.

#![allow(clippy::disallowed_methods)] // deadlines of its own

mod becomes;
mod descriptors;
mod forks;
mod interrupted;
mod loads;
mod nested;
mod rests;
mod signals;
mod sleeps;
mod stacks;
mod traced;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::own::start_sampling as start;
use integration_tests::patience::LONG;
use profiler_core::session;

/// Runs until the flag is set.
type Storm = fn(&AtomicBool) -> Result<()>;

const STORMS: &[(&str, Storm)] = &[
    ("malloc", loads::malloc),
    ("dlopen", loads::dlopen),
    ("panic", loads::panic),
    ("threads", loads::threads),
    ("fork", forks::fork),
    ("vfork", forks::vfork),
    ("exec", forks::exec),
    ("sleepers", sleeps::sleepers),
    ("signals", signals::own_handler),
    ("dispositions", signals::taken_away),
    ("urgent", signals::to_the_process),
    ("small_alternate_stacks", signals::small_alternate_stacks),
    (
        "too_small_alternate_stacks",
        signals::too_small_alternate_stacks,
    ),
    ("guarded_stacks", stacks::guarded),
    ("nearly_full_stacks", nested::on_small_stacks),
];

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let name = words.next().context("which storm?")?;
    let seconds = words.next().context("how many seconds?")?.parse()?;
    if name == "reexec" {
        start()?;
        return becomes::reexec(seconds, becomes::Round::parse(seconds, words)?);
    }
    if name == "interrupted" {
        return interrupted::run(seconds, &words.next().context("which scene?")?);
    }
    match name.as_str() {
        "reloads" => return loads::reloads(seconds),
        "rests" => {
            start()?;
            return rests::measure(seconds, words.next().context("how many threads?")?.parse()?);
        }
        "traced" => return traced::run(seconds, &words.next().context("which source?")?),
        "full_descriptor_table" => return descriptors::full(),
        _ => {}
    }
    let (_, storm) = STORMS
        .iter()
        .find(|(known, _)| *known == name)
        .context("no such storm")?;
    signals::take_the_signal_first(&name);
    start()?;
    let stop = AtomicBool::new(false);
    let ends = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        // Two threads run the same storm, because a storm collides most with itself.
        let storms: Vec<_> = (0..2).map(|_| scope.spawn(|| storm(&stop))).collect();
        // On a loaded machine the storm continues until the sampler has done something.
        while Instant::now() < ends || !has_sampled(&name, seconds) && Instant::now() < ends + LONG
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        storms.into_iter().try_for_each(|storm| {
            storm
                .join()
                .map_err(|_| anyhow::anyhow!("the storm panicked"))?
        })
    })?;
    let stats = session::sampling_stats().context("nothing was sampled")?;
    ensure!(
        has_sampled(&name, seconds),
        "the sampler made too few ticks, or no thread answered: {stats:?}"
    );
    session::stop();
    println!("ok {stats:?}");
    Ok(())
}

/// Returns whether the sampler has taken samples, and has made enough ticks to show that it was not
/// blocked.
fn has_sampled(storm: &str, seconds: u64) -> bool {
    session::sampling_stats().is_some_and(|stats| {
        // A thread that only sleeps is not signalled.
        let samples = if storm == "sleepers" {
            stats.peeked
        } else {
            stats.taken
        };
        // A tick in which no thread answers takes 0.1 s.
        samples > 0 && stats.ticks > seconds * 3
    })
}

/// Returns whether the storm continues.
fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}
