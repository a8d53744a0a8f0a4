//! The cost of a sample: the work lost by the sampled thread, and the work of the sampler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::counting::allocations_everywhere_during;

use super::session::{LONG, Sampling, at_depth, beside, goes_on};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median_ratio, monotonic_ns, ns_of};

const ROUNDS: usize = 11;
/// About 0.2 s of work: about 200 samples.
const WORK: u64 = 700_000_000;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    at_full_load(report)?;
    for depth in [10, 30, 100] {
        sampler(report, depth)?;
    }
    slowdown(report)
}

/// Measures how many samples succeed when no core is free: there are as many busy threads as cores.
/// The sampler has to take a core from one of the threads, which can answer only when it runs
/// again.
fn at_full_load(report: &mut Report) -> Result<()> {
    let sampling = Sampling::start()?;
    let others: usize = cores().len().max(2) - 1;
    let stop = AtomicBool::new(false);
    let begin = monotonic_ns();
    std::thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(|| busy(&stop));
        }
        let result = beside(busy);
        stop.store(true, Ordering::Relaxed);
        result
    })?;
    let stats = sampling.stats()?;
    let seconds = (monotonic_ns() - begin) / 1e9;
    let asked = (stats.taken + stats.missed) as f64;
    report.put(Figure::new(
        "sample.missed_pct",
        stats.missed as f64 * 100.0 / asked.max(1.0),
        "%",
    ));
    report.put(Figure::new(
        "sample.ticks_per_s",
        stats.ticks as f64 / seconds,
        "of 1000 at full load",
    ));
    Ok(())
}

fn busy(stop: &AtomicBool) {
    at_depth(30, &mut || {
        while goes_on(stop) {
            (0..1000_u64).for_each(|number| _ = std::hint::black_box(number));
        }
    });
}

/// Returns the processor time of the sampler's thread so far.
fn sampler_ns() -> Result<u64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "profiler-stacks" {
            let times = std::fs::read_to_string(task.join("schedstat"))?;
            return times
                .split_ascii_whitespace()
                .next()
                .context("no time")?
                .parse()
                .context("no number");
        }
    }
    anyhow::bail!("there is no sampler")
}

/// Measures the processor time of the sampler's thread per sample of a stack of this depth.
fn sampler(report: &mut Report, depth: u32) -> Result<()> {
    let sampling = Sampling::start()?;
    let mut took = Ok((0_u64, 0_u64, 0_u64));
    let work = |stop: &AtomicBool| {
        at_depth(depth, &mut || {
            std::thread::sleep(Duration::from_millis(1)); // lets the other thread begin to measure
            while goes_on(stop) {
                (0..1000_u64).for_each(|number| _ = std::hint::black_box(number));
            }
        });
    };
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| beside(work));
        took = warm(&sampling);
        let _ = busy.join();
    });
    let (ns, samples, allocations) = took?;
    let each = |sum: u64| sum as f64 / samples.max(1) as f64;
    report.put(Figure::new(
        format!("sample.cpu_us.depth_{depth}"),
        each(ns) / 1e3,
        "µs per sample",
    ));
    if depth == 100 {
        let stats = sampling.stats()?;
        let frame = stats.unwinding_ns as f64 / stats.frames.max(1) as f64;
        report.put(Figure::new("sample.unwind_ns_per_frame", frame, "ns"));
        let figure = Figure::new(
            "sample.allocations",
            each(allocations).round(),
            "per sample",
        );
        report.put(figure.promised(Promise::AtMost(0.0)));
    }
    Ok(())
}

/// Returns the time, samples and allocations of the second third of a run.
fn warm(sampling: &Sampling) -> Result<(u64, u64, u64)> {
    std::thread::sleep(LONG / 3);
    let ns = sampler_ns()?;
    let taken = sampling.stats()?.taken;
    let allocations = allocations_everywhere_during(|| std::thread::sleep(LONG / 3));
    Ok((
        sampler_ns()? - ns,
        sampling.stats()?.taken - taken,
        allocations,
    ))
}

/// Measures how much longer the same work takes while it is sampled. Each round does it with and
/// without the sampler.
fn slowdown(report: &mut Report) -> Result<()> {
    let work = || {
        ns_of(|| {
            at_depth(30, &mut || {
                (0..WORK).for_each(|number| _ = std::hint::black_box(number))
            })
        })
    };
    let mut sampled = Vec::new();
    let mut alone = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(work());
        let sampling = Sampling::start()?;
        sampled.push(work());
        drop(sampling);
    }
    let percent = (median_ratio(&sampled, &alone) - 1.0) * 100.0;
    report.put(Figure::new("sample.slowdown_pct", percent, "%").promised(Promise::AtMost(2.0)));
    Ok(())
}
