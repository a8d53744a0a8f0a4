//! What a sample costs: the thread it is taken of, and the sampler.
//!
//! *Held*: the sampled thread reads the clock all the time; the gap that a sample's own time stamp lies in is the
//! time for which the thread stood still, signal and return included. Gaps of other causes do not count.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::counting::allocations_everywhere_during;
use profiler_core::time::Timestamp;

use super::session::{LONG, Sampling, at_depth, beside, goes_on, samples_of};
use crate::figure::{Figure, Promise, Report};
use crate::measure::{cores, median_ratio, monotonic_ns, ns_of};

const ROUNDS: usize = 11;
/// About 0.2 s of work: some hundred samples.
const WORK: u64 = 700_000_000;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    held(report)?;
    at_full_load(report)?;
    for depth in [10, 30, 100] {
        sampler(report, depth)?;
    }
    slowdown(report)
}

/// Gaps between two reads of the clock of more than a microsecond, and the ticks of a microsecond.
fn gaps(stop: &AtomicBool) -> (Vec<(u64, u64)>, f64) {
    let (begin_ns, begin) = (monotonic_ns(), Timestamp::now().raw());
    let mut found = Vec::with_capacity(100_000);
    let mut last = begin;
    let shortest = 500; // in ticks; what is too short is sorted out by the samples' times
    at_depth(30, &mut || {
        while goes_on(stop) {
            let now = Timestamp::now().raw();
            if now - last > shortest && found.len() < found.capacity() {
                found.push((last, now));
            }
            last = now;
        }
    });
    let ticks_per_us = (last - begin) as f64 / ((monotonic_ns() - begin_ns) / 1e3);
    (found, ticks_per_us)
}

fn held(report: &mut Report) -> Result<()> {
    let sampling = Sampling::start()?;
    let (thread, (gaps, ticks_per_us)) = beside(gaps)?;
    let mut held: Vec<f64> = samples_of(thread)?
        .iter()
        .filter_map(|sample| {
            let after = gaps.partition_point(|(start, _)| *start <= sample.at);
            let (start, end) = gaps.get(after.checked_sub(1)?).filter(|(_, end)| sample.at <= *end)?;
            Some((end - start) as f64 / ticks_per_us)
        })
        .collect();
    held.sort_by(f64::total_cmp);
    let quantile = |part: f64| held.get((held.len() as f64 * part) as usize).copied();
    let few = (held.len() < 500).then(|| format!("only {} samples", held.len()));
    let p50 = quantile(0.5).context("no sample lies in a gap")?;
    let p99 = quantile(0.99).context("no sample lies in a gap")?;
    report.put(Figure::new("sample.held_us.p50", p50, "µs").unless(few.clone()));
    report.put(Figure::new("sample.held_us.p99", p99, "µs").promised(Promise::AtMost(50.0)).unless(few));
    drop(sampling);
    Ok(())
}

/// How many samples are to be had where no core is free: as many busy threads as cores. The sampler has to take a
/// core from one of them, and that one can answer only when it has it back.
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
    let (stats, seconds) = (sampling.stats()?, (monotonic_ns() - begin) / 1e9);
    let asked = (stats.taken + stats.missed) as f64;
    report.put(Figure::new("sample.missed_pct", stats.missed as f64 * 100.0 / asked.max(1.0), "%"));
    report.put(Figure::new("sample.ticks_per_s", stats.ticks as f64 / seconds, "of 1000 at full load"));
    Ok(())
}

fn busy(stop: &AtomicBool) {
    at_depth(30, &mut || {
        while goes_on(stop) {
            (0..1000_u64).for_each(|number| _ = std::hint::black_box(number));
        }
    });
}

/// Processor time of the sampler's thread so far.
fn sampler_ns() -> Result<u64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim() == "profiler-stacks" {
            let times = std::fs::read_to_string(task.join("schedstat"))?;
            return times.split_ascii_whitespace().next().context("no time")?.parse().context("no number");
        }
    }
    anyhow::bail!("there is no sampler")
}

/// What the sampler's thread takes for a sample of a stack so deep.
fn sampler(report: &mut Report, depth: u32) -> Result<()> {
    let sampling = Sampling::start()?;
    let mut took = Ok((0_u64, 0_u64, 0_u64));
    let work = |stop: &AtomicBool| {
        at_depth(depth, &mut || {
            std::thread::sleep(Duration::from_millis(1)); // the other thread measures from here
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
    report.put(Figure::new(format!("sample.cpu_us.depth_{depth}"), each(ns) / 1e3, "µs per sample"));
    if depth == 100 {
        let stats = sampling.stats()?;
        let frame = stats.unwinding_ns as f64 / stats.frames.max(1) as f64;
        report.put(Figure::new("sample.unwind_ns_per_frame", frame, "ns"));
        let figure = Figure::new("sample.allocations", each(allocations).round(), "per sample");
        report.put(figure.promised(Promise::AtMost(0.0)));
    }
    Ok(())
}

/// Time, samples and allocations of the second third of a run.
fn warm(sampling: &Sampling) -> Result<(u64, u64, u64)> {
    std::thread::sleep(LONG / 3);
    let (ns, taken) = (sampler_ns()?, sampling.stats()?.taken);
    let allocations = allocations_everywhere_during(|| std::thread::sleep(LONG / 3));
    Ok((sampler_ns()? - ns, sampling.stats()?.taken - taken, allocations))
}

/// How much longer the same work takes while it is sampled; each round with and without.
fn slowdown(report: &mut Report) -> Result<()> {
    let work =
        || ns_of(|| at_depth(30, &mut || (0..WORK).for_each(|number| _ = std::hint::black_box(number))));
    let (mut sampled, mut alone) = (Vec::new(), Vec::new());
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
