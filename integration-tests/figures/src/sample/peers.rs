//! Compares the sampler with the `pprof` crate and with `perf record -g`, on the same work at the
//! same frequency.
//!
//! Each sampler runs in a separate process, so that no handler, timer or thread interferes with
//! another sampler. The process does the work repeatedly, in turn alone and sampled, so that a
//! change of the machine's speed affects both.
//!
//! The compared value is the cost of one sample: the additional processor time of the work, divided
//! by the number of samples. Numbers of samples cannot be compared, because `pprof`'s timer counts
//! in the kernel's ticks: with 250 ticks per second it takes 250 samples per second at any
//! requested frequency. `ratio` counts the thread that works. `cpu_ratio` counts all threads of the
//! process, including the profiler's sampler. `bare` is the cost of a signal from another thread
//! whose handler does nothing. In a virtual machine it is most of the cost, because interrupting
//! another processor is expensive there, while `pprof`'s timer shares the interrupt with the
//! kernel's tick. `vs_perf.cpu_ratio` counts the threads of the process and the process `perf`.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};

use super::held::{handle, signal};
use super::perf::PerfRecord;
use super::session::{Sampling, at_depth};
use crate::workers::CHILD;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cpu_ns_of, median};

/// Processes per sampler.
const ROUNDS: usize = 3;
/// Times that each process does the work alone and sampled.
const PAIRS: usize = 6;
/// About 0.8 s of work: the start of the sampler, some milliseconds, matters little.
const WORK: u64 = 2_800_000_000;
const DEPTH: u32 = 30;
const HZ: i32 = 1000;
/// Samples per run that are necessary to determine the cost of one.
const FEW: f64 = 20.0;

/// The sampler of a child, which is the child's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampler {
    Own = 1,
    Pprof = 2,
    /// Signals at the profiler's frequency, whose handler does nothing.
    Signals = 3,
    Perf = 4,
}

/// A child's results: each number is the median of its pairs, and times are nanoseconds of
/// processor time.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Time of the work alone.
    alone: f64,
    /// The cost of a sample for the thread that works.
    thread: f64,
    /// The cost of a sample for the process.
    process: f64,
    slowdown_pct: f64,
    /// Samples per run.
    samples: f64,
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let program = std::env::current_exe()?;
    let mut ours = Vec::new();
    let mut pprof = Vec::new();
    let mut bare = Vec::new();
    let mut perf = Vec::new();
    let mut no_perf = None;
    for _ in 0..ROUNDS {
        ours.push(child(&program, Sampler::Own)?);
        pprof.push(child(&program, Sampler::Pprof)?);
        bare.push(child(&program, Sampler::Signals)?);
        if no_perf.is_none() {
            match child(&program, Sampler::Perf) {
                Ok(found) => perf.push(found),
                Err(error) => no_perf = Some(format!("{error:#}")),
            }
        }
    }
    put(report, &ours, &pprof, &bare);
    put_perf(report, &ours, &perf, no_perf);
    Ok(())
}

/// The middle value of a number of all processes of a sampler.
fn middle(all: &[Found], of: fn(&Found) -> f64) -> f64 {
    median(&all.iter().map(of).collect::<Vec<_>>())
}

fn put_perf(report: &mut Report, ours: &[Found], perf: &[Found], no_perf: Option<String>) {
    let cost = |all| middle(all, |found| found.process);
    let lost = cost(perf);
    let none = (lost <= 0.0)
        .then(|| "the machine is too busy: perf costs nothing that can be seen".to_owned());
    let name = "sample.vs_perf.cpu_ratio";
    let ratio = Figure::new(name, cost(ours) / lost, "x perf's cpu per sample");
    report.put(
        ratio
            .promised(Promise::Below(1.0))
            .unless(none)
            .or_left_out(no_perf.clone()),
    );
    let us = Figure::new("sample.vs_perf.cpu_us", lost / 1e3, "µs per sample");
    report.put(us.or_left_out(no_perf.clone()));
    let slowdown = middle(perf, |found| found.slowdown_pct);
    report.put(Figure::new("sample.vs_perf.slowdown_pct", slowdown, "%").or_left_out(no_perf));
}

fn put(report: &mut Report, ours: &[Found], pprof: &[Found], bare: &[Found]) {
    let all = [("ours", ours), ("pprof", pprof), ("bare", bare)];
    let few = all
        .iter()
        .find(|(_, all)| middle(all, |found| found.samples) < FEW);
    let few = few.map(|(name, _)| format!("too few samples of {name}"));
    let lost = middle(pprof, |found| found.thread);
    let none = (lost <= 0.0)
        .then(|| "the machine is too busy: pprof costs nothing that can be seen".to_owned());
    let signal = middle(bare, |found| found.thread);
    let dear = (signal >= lost).then(|| {
        format!(
            "a signal alone costs {:.1} µs here, a sample of pprof's {:.1}",
            signal / 1e3,
            lost / 1e3
        )
    });
    let thread = middle(ours, |found| found.thread) / lost;
    let figure = Figure::new("sample.vs_pprof.ratio", thread, "x pprof's loss per sample");
    report.put(
        figure
            .promised(Promise::Below(1.0))
            .unless(few.clone())
            .unless(none.clone())
            .unless(dear),
    );
    let process = middle(ours, |found| found.process) / middle(pprof, |found| found.process);
    let figure = Figure::new(
        "sample.vs_pprof.cpu_ratio",
        process,
        "x pprof's cpu per sample",
    );
    report.put(figure.unless(few).unless(none));
    for (name, all) in all {
        let us = middle(all, |found| found.thread) / 1e3;
        let rate = middle(all, |found| found.samples * 1e9 / found.alone);
        let name = format!("sample.vs_pprof.{name}");
        report.put(Figure::new(format!("{name}.loss_us"), us, "µs per sample"));
        report.put(Figure::new(
            format!("{name}.slowdown_pct"),
            middle(all, |found| found.slowdown_pct),
            "%",
        ));
        report.put(Figure::new(
            format!("{name}.samples"),
            rate,
            "per second of work",
        ));
    }
}

fn child(program: &Path, sampler: Sampler) -> Result<Found> {
    run(Command::new(program).args([CHILD, "peer", &(sampler as u32).to_string()]))
}

/// Runs a child with the mode [`work`] and parses its results.
fn run(command: &mut Command) -> Result<Found> {
    let output = command.stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let error = error.lines().next().unwrap_or_default();
    ensure!(
        output.status.success(),
        "{}: {printed} {error}",
        output.status
    );
    let numbers: Vec<f64> = printed
        .split_ascii_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [alone, thread, process, slowdown_pct, samples] = numbers[..] else {
        bail!("it printed {printed:?}: {error}")
    };
    Ok(Found {
        alone,
        thread,
        process,
        slowdown_pct,
        samples,
    })
}

/// In the child: does the work alone and sampled in turn, and prints the results.
pub(crate) fn work(sampler: u64) -> Result<()> {
    let mut pairs = Vec::new();
    do_work(); // a warm-up, which is in no pair
    for _ in 0..PAIRS {
        let alone = do_work();
        let (sampled, samples) = match sampler {
            1 => {
                let sampling = Sampling::start()?;
                (do_work(), sampling.stats()?.taken)
            }
            2 => by_pprof()?,
            3 => by_signals()?,
            _ => by_perf()?,
        };
        let one_thread = |took: WorkTime| WorkTime {
            process: took.thread,
            ..took
        };
        // The process clock counts in ticks while `pprof`'s timer runs. Such a process has one
        // thread, so the thread's clock replaces it.
        let [alone, sampled] = if sampler == 2 {
            [alone, sampled].map(one_thread)
        } else {
            [alone, sampled]
        };
        pairs.push((alone, sampled, samples as f64));
    }
    let middle = |of: &dyn Fn(&(WorkTime, WorkTime, f64)) -> f64| {
        median(&pairs.iter().map(of).collect::<Vec<_>>())
    };
    let alone = middle(&|(alone, ..)| alone.thread);
    let thread =
        middle(&|(alone, sampled, samples)| (sampled.thread - alone.thread) / samples.max(1.0));
    let process =
        middle(&|(alone, sampled, samples)| (sampled.process - alone.process) / samples.max(1.0));
    let slowdown = middle(&|(alone, sampled, _)| (sampled.thread / alone.thread - 1.0) * 100.0);
    let samples = middle(&|(.., samples)| *samples);
    println!("{alone} {thread} {process} {slowdown} {samples}");
    Ok(())
}

fn by_pprof() -> Result<(WorkTime, u64)> {
    let profiler = pprof::ProfilerGuardBuilder::default()
        .frequency(HZ)
        .build()?;
    let took = do_work();
    let report = profiler.report().build_unresolved()?;
    Ok((
        took,
        report
            .data
            .values()
            .map(|count| count.unsigned_abs() as u64)
            .sum(),
    ))
}

/// Does the work while another thread sends signals at the frequency of samples.
fn by_signals() -> Result<(WorkTime, u64)> {
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let thread = profiler_core::thread::current();
    let send = || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(950));
            signal(thread);
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    handle(ignore as extern "C" fn(libc::c_int))?;
    std::thread::scope(|scope| {
        scope.spawn(send);
        let took = do_work();
        stop.store(true, Ordering::Relaxed);
        Ok((took, sent.load(Ordering::Relaxed)))
    })
}

/// Does the work while `perf` records it. The process time includes that of `perf`.
fn by_perf() -> Result<(WorkTime, u64)> {
    let directory = tempfile::tempdir()?;
    let mut perf = PerfRecord::start(directory.path(), HZ)?;
    let before = perf.enable()?;
    let took = do_work();
    let used = perf.disable()? - before;
    let took = WorkTime {
        process: took.process + used as f64,
        ..took
    };
    Ok((took, perf.finish()?))
}

extern "C" fn ignore(_: libc::c_int) {}

/// Processor time of the work, of the thread and of the process.
#[derive(Clone, Copy, Debug)]
struct WorkTime {
    thread: f64,
    process: f64,
}

/// Does the work and returns its processor time.
fn do_work() -> WorkTime {
    let process_ns = || {
        let now = clock_gettime(ClockId::ProcessCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let before = process_ns();
    let work = || {
        at_depth(DEPTH, &mut || {
            (0..WORK).for_each(|number| _ = black_box(number))
        })
    };
    let (thread, _) = cpu_ns_of(work);
    WorkTime {
        thread,
        process: process_ns() - before,
    }
}
