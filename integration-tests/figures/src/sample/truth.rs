//! Whether samples are right: compares them with what the threads measured themselves.
//!
//! `weighted_ratio` is the processor time that samples carry, divided by the time used.
//! `taken_ratio` is the number of samples, divided by the number of intervals in the time used.
//! `share_error_pct` is the largest difference, in percentage points, between two shares of a
//! function: its share of the processor time that samples carry, and its share of the time used.
//! The thread's clock is read before and after each call of the function.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::{self, SampleSource};
use profiler_core::thread;
use rustix::time::{ClockId, clock_gettime};

use super::session::{Sampling, each_sample, goes_on};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::cores;

/// The shortest time of a measurement of weights.
const LEAST_TIME: Duration = Duration::from_secs(3);
/// The processor time that each thread has in a measurement of weights, at least. A shorter time
/// would make the result less exact, because the time after a thread's last sample is in no sample.
const LEAST_EACH: Duration = Duration::from_millis(300);
/// The time of a measurement of shares.
const SHARES_TIME: Duration = Duration::from_secs(10);
/// The time of the measurement of shares with six busy threads. On two cores, they have 500 samples
/// per second if the system's tick is 4 ms. In this time, an error of 2 points is unlikely to be
/// due to chance.
const BUSY_6_TIME: Duration = Duration::from_secs(30);
const SOURCES: [SampleSource; 3] = [
    SampleSource::Timer,
    SampleSource::Sigtrap,
    SampleSource::Signal,
];
/// The number of bytes at the start of a function in which a sample counts for the function. All of
/// [`FUNCTIONS`] have equal code, which is longer than this. So each of them has the same part of
/// its samples in these bytes, and no other function has samples there.
const CODE: u64 = 128;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for source in SOURCES {
        for threads in [1, 2, 6, 64] {
            weights(report, source, threads)?;
        }
    }
    let rounds: [(&str, Work, Duration); 3] = [
        ("busy_6", busy_6, BUSY_6_TIME),
        ("bursts_20us", bursts, SHARES_TIME),
        ("short_threads", short_threads, SHARES_TIME),
    ];
    for (name, work, time) in rounds {
        shares(report, name, work, time)?;
    }
    Ok(())
}

/// Runs threads until the flag is set, and adds their processor time by function to the ledger.
type Work = fn(&Ledger, &AtomicBool) -> Result<()>;

/// A sample that carries processor time.
struct Weighed {
    thread: ThreadId,
    cpu_ns: u64,
    /// The function that ran, one of [`FUNCTIONS`].
    function: Option<usize>,
}

/// Returns all samples with processor time.
fn weighed() -> Result<Vec<Weighed>> {
    session::wait_one_periodic_sampling();
    let mut all = Vec::new();
    each_sample(session::pool_file()?, |sample, addresses| {
        if let (Some(thread), Some(cpu_ns)) = (sample.foreign, sample.cpu_ns)
            && cpu_ns > 0
        {
            all.push(Weighed {
                thread,
                cpu_ns,
                // The functions call no other functions. So the innermost frame of a sample in one
                // of them is the function itself.
                function: addresses.last().and_then(|address| function_at(*address)),
            });
        }
    })?;
    Ok(all)
}

fn interval_ns() -> Result<u64> {
    let reader = PoolReader::open(session::pool_file()?)?;
    let params = reader.snapshot()?.header.params.context("no parameters")?;
    Ok(params.interval_ns)
}

fn own_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Measures the weights and numbers of samples of `threads` busy threads.
fn weights(report: &mut Report, source: SampleSource, threads: usize) -> Result<()> {
    let _sampling = Sampling::by(source)?;
    let stop = AtomicBool::new(false);
    let used: Vec<(ThreadId, u64)> = std::thread::scope(|scope| {
        let busy = || {
            thread::register("busy");
            let before = own_cpu_ns();
            while goes_on(&stop) {
                first(20_000);
            }
            (thread::current(), own_cpu_ns() - before)
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(busy)).collect();
        let each = u32::try_from(threads / cores().len().max(1)).unwrap_or(u32::MAX);
        std::thread::sleep(LEAST_TIME.max(LEAST_EACH * each));
        stop.store(true, Ordering::Relaxed);
        all.into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked")))
            .collect::<Result<_>>()
    })?;
    let samples = weighed()?;
    let of_threads: Vec<_> = samples
        .iter()
        .filter(|sample| used.iter().any(|(tid, _)| *tid == sample.thread))
        .collect();
    let carried: u64 = of_threads.iter().map(|sample| sample.cpu_ns).sum();
    let used: u64 = used.iter().map(|(_, ns)| ns).sum();
    let due = used as f64 / interval_ns()? as f64;
    let name = source.name();
    let figure = |kind, value| {
        Figure::new(
            format!("sample.{kind}.{name}.busy_{threads}_on_2"),
            value,
            "of the processor time used",
        )
    };
    let ratio = figure("weighted_ratio", carried as f64 / used as f64);
    let taken = figure("taken_ratio", of_threads.len() as f64 / due);
    let header = PoolReader::open(session::pool_file()?)?.snapshot()?.header;
    let other = (header.sample_source != Some(source))
        .then(|| format!("the system gives no samples by {name}"));
    report.put(
        ratio
            .promised(Promise::Between(0.98, 1.02))
            .unless(other.clone()),
    );
    let taken = match source {
        SampleSource::Signal => taken, // each signal needs a core
        _ => taken.promised(Promise::AtLeast(0.95)),
    };
    report.put(taken.unless(other));
    Ok(())
}

macro_rules! functions {
    ($($name:ident $salt:literal),*) => {
        $(#[inline(never)]
        fn $name(steps: u64) -> u64 {
            let mut x = black_box($salt);
            for _ in 0..steps {
                x ^= x << 13_u32;
                x ^= x >> 7_u32;
                x ^= x << 17_u32;
            }
            black_box(x)
        })*
        /// Functions that do the same work.
        const FUNCTIONS: [fn(u64) -> u64; 3] = [$($name),*];
    };
}

functions!(first 3_u64, second 5_u64, third 7_u64);

/// The function that has the address in its first [`CODE`] bytes.
fn function_at(address: u64) -> Option<usize> {
    let starts = FUNCTIONS.map(|function| function as *const () as u64);
    let below = starts
        .iter()
        .enumerate()
        .filter(|(_, start)| **start <= address);
    below
        .max_by_key(|(_, start)| **start)
        .filter(|(_, start)| address - **start < CODE)
        .map(|(function, _)| function)
}

/// Processor time by function, as the threads measured it.
type Ledger = Mutex<[u64; 3]>;

/// Runs a function and returns its processor time.
fn timed(function: usize, steps: u64) -> u64 {
    let before = own_cpu_ns();
    if let Some(function) = FUNCTIONS.get(function) {
        function(steps);
    }
    own_cpu_ns() - before
}

fn enter(ledger: &Ledger, own: [u64; 3]) -> Result<()> {
    let mut all = ledger.lock().map_err(|_| anyhow!("a thread panicked"))?;
    all.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    Ok(())
}

/// Measures the largest error of a function's share.
fn shares(report: &mut Report, name: &str, work: Work, time: Duration) -> Result<()> {
    let _sampling = Sampling::by(SampleSource::Timer)?;
    let ledger = Ledger::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| work(&ledger, &stop));
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        work.join().map_err(|_| anyhow!("a thread panicked"))?
    })?;
    let exact = ledger
        .into_inner()
        .map_err(|_| anyhow!("a thread panicked"))?;
    let mut sampled = [0; 3];
    let mut samples = 0;
    for sample in weighed()? {
        if let Some(sum) = sample
            .function
            .and_then(|function| sampled.get_mut(function))
        {
            *sum += sample.cpu_ns;
            samples += 1;
        }
    }
    let share = |all: [u64; 3], of: u64| of as f64 * 100.0 / all.iter().sum::<u64>().max(1) as f64;
    let error = exact
        .into_iter()
        .zip(sampled)
        .map(|(is, seen)| (share(exact, is) - share(sampled, seen)).abs())
        .fold(0.0, f64::max);
    let few = (samples < 200).then(|| format!("only {samples} samples"));
    let figure = Figure::new(
        format!("sample.share_error_pct.{name}"),
        error,
        "percentage points",
    );
    report.put(figure.promised(Promise::AtMost(2.0)).unless(few));
    Ok(())
}

/// Steps of the three functions: shares of 50, 30 and 20 %.
const STEPS: [u64; 3] = [50, 30, 20];

/// Runs the functions in turn until the flag is set, each for about `unit` steps per percent of its
/// share. The number of steps varies at random, because runs of equal length could fall into step
/// with the system's ticks.
fn in_turn(ledger: &Ledger, stop: &AtomicBool, unit: u64, pause: Option<Duration>) -> Result<()> {
    thread::register("in turn");
    let mut own = [0; 3];
    let mut random = thread::current().get() | 1;
    while goes_on(stop) {
        for (function, (sum, steps)) in own.iter_mut().zip(STEPS).enumerate() {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *sum += timed(function, steps * (unit / 2 + random % unit));
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
        }
    }
    enter(ledger, own)
}

fn busy_6(ledger: &Ledger, stop: &AtomicBool) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..6)
            .map(|_| scope.spawn(|| in_turn(ledger, stop, 2000, None)))
            .collect();
        all.into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// Bursts of about 20 µs, with pauses.
fn bursts(ledger: &Ledger, stop: &AtomicBool) -> Result<()> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| in_turn(ledger, stop, 600, Some(Duration::from_micros(100)))))
            .collect();
        all.into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

/// Threads that live for about 0.2 ms; each runs one function.
fn short_threads(ledger: &Ledger, stop: &AtomicBool) -> Result<()> {
    const TURNS: [usize; 10] = [0, 1, 0, 2, 0, 1, 0, 2, 0, 1];
    for function in TURNS.into_iter().cycle() {
        if !goes_on(stop) {
            break;
        }
        let short = move || {
            thread::register("short");
            timed(function, 200_000)
        };
        let ns = std::thread::Builder::new()
            .spawn(short)?
            .join()
            .map_err(|_| anyhow!("a thread panicked"))?;
        let mut own = [0; 3];
        if let Some(sum) = own.get_mut(function) {
            *sum = ns;
        }
        enter(ledger, own)?;
    }
    Ok(())
}
