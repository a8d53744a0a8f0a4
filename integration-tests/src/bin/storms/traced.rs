//! A process that a debugger stops and continues while it is sampled: `storms traced SECONDS
//! SOURCE`, with the source `timer` or `signal`.
//!
//! Two threads compute a known result again and again, others start and end, and one waits. The
//! debugger is the program `tracer`.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use integration_tests::patience::until;
use profiler_core::session::{self, Features, SampleSource, SessionParams, StartOptions};

use crate::goes_on;

/// The number of rounds of the debugger per second.
const ROUNDS: u64 = 15;

static RESULTS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn run(seconds: u64, source: &str) -> Result<()> {
    start(source)?;
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        let workers = [
            scope.spawn(|| compute_often(&stop)),
            scope.spawn(|| compute_often(&stop)),
            scope.spawn(|| start_threads(&stop)),
            scope.spawn(|| sleep_often(&stop)),
        ];
        let said = trace(seconds * ROUNDS).and_then(|said| {
            let before = taken();
            ensure!(until(|| taken() > before + 20), "no samples afterwards");
            Ok(said)
        });
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().ok().context("a thread panicked")??;
        }
        said
    })?;
    let results = RESULTS.load(Ordering::Relaxed);
    let stats = session::sampling_stats();
    session::stop();
    println!("ok {said}, {results} results, {stats:?}");
    Ok(())
}

fn start(source: &str) -> Result<()> {
    let source = match source {
        "timer" => SampleSource::Timer,
        "signal" => SampleSource::Signal,
        _ => bail!("no such source"),
    };
    let params = SessionParams {
        features: Features::STACK_WALK.with(Features::CPU),
        source,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default())?;
    Ok(())
}

fn taken() -> u64 {
    session::sampling_stats().map_or(0, |stats| stats.taken)
}

/// Lets the debugger work on this process. Returns what it said.
fn trace(rounds: u64) -> Result<String> {
    ensure!(until(|| taken() > 20), "no samples before");
    // SAFETY: takes only numbers. Where only ancestors may trace a process, any process may now.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    let tracer = std::env::current_exe()?.with_file_name("tracer");
    let mut command = Command::new(tracer);
    let command = command
        .args([std::process::id().to_string(), rounds.to_string()])
        .stdout(Stdio::piped());
    let output = command.spawn()?.wait_with_output()?;
    ensure!(
        output.status.success(),
        "the tracer ended with {}",
        output.status
    );
    let said = String::from_utf8(output.stdout)?.trim_end().to_owned();
    let stopped = said.split(' ').next().and_then(|word| word.parse().ok());
    ensure!(
        said.starts_with("left out") || stopped > Some(rounds * 4),
        "too few stops: {said}"
    );
    Ok(said)
}

/// The sum of a sequence whose result is known.
#[inline(never)]
fn triangle(most: u64) -> u64 {
    (1..=most).fold(0, |sum, number| black_box(sum + black_box(number)))
}

fn compute_often(stop: &AtomicBool) -> Result<()> {
    const MAX: u64 = 100_000;
    while goes_on(stop) {
        let sum = triangle(MAX);
        ensure!(sum == MAX * (MAX + 1) / 2, "a wrong result: {sum}");
        RESULTS.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn start_threads(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        let thread = std::thread::Builder::new().spawn(|| {
            profiler_core::thread::register("short");
            triangle(20_000)
        })?;
        ensure!(
            thread.join().ok() == Some(20_000 * 20_001 / 2),
            "a wrong result"
        );
    }
    Ok(())
}

fn sleep_often(stop: &AtomicBool) -> Result<()> {
    while goes_on(stop) {
        std::thread::sleep(Duration::from_millis(3));
    }
    Ok(())
}
