//! The cost of a sample: the work lost by the sampled thread, and the work of the sampler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::counting::allocations_everywhere_during;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::{self, SampleSource};

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
    for (source, most_us) in [
        (SampleSource::Timer, Some(25.0)),
        (SampleSource::Sigtrap, Some(35.0)),
        (SampleSource::Signal, None),
    ] {
        by_source(report, source, most_us)?;
    }
    slowdown(report)
}

/// Measures how many samples succeed when no core is free: there are as many busy threads as cores,
/// and the sampler has to take a core from one of them.
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
pub(super) fn sampler_ns() -> Result<u64> {
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

/// Measures the processor time of the sampler's thread and of the handlers, per sample at depth 30.
fn by_source(report: &mut Report, source: SampleSource, most_us: Option<f64>) -> Result<()> {
    let sampling = Sampling::by(source)?;
    let cost = cost_at(&sampling, 30)?;
    let name = source.name();
    let each = (cost.sampler_ns + cost.handlers_ns) as f64 / cost.samples.max(1) as f64;
    let figure = Figure::new(
        format!("sample.cpu_us.{name}"),
        each / 1e3,
        "µs of the sampler and the handler per sample",
    );
    let used = PoolReader::open(session::pool_file()?)?.snapshot()?;
    let other = (used.header.sample_source != Some(source))
        .then(|| format!("the system gives no samples by {name}"));
    let figure = match most_us {
        Some(most) => figure.promised(Promise::AtMost(most)),
        None => figure,
    };
    report.put(figure.unless(other));
    Ok(())
}

/// What samples cost.
struct SampleCost {
    sampler_ns: u64,
    handlers_ns: u64,
    samples: u64,
    allocations: u64,
}

/// Runs one busy thread with a stack of this depth.
fn cost_at(sampling: &Sampling, depth: u32) -> Result<SampleCost> {
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
        let cost = warm(sampling);
        let _ = busy.join();
        cost
    })
}

/// Measures the processor time of the sampler's thread per sample of a stack of this depth.
fn sampler(report: &mut Report, depth: u32) -> Result<()> {
    let sampling = Sampling::start()?;
    let SampleCost {
        sampler_ns: ns,
        samples,
        allocations,
        ..
    } = cost_at(&sampling, depth)?;
    let each = |sum: u64| sum as f64 / samples.max(1) as f64;
    let figure = Figure::new(
        format!("sample.cpu_us.depth_{depth}"),
        each(ns) / 1e3,
        "µs of the sampler per sample",
    );
    let is_promised = depth == 30;
    report.put(if is_promised {
        figure.promised(Promise::AtMost(25.0))
    } else {
        figure
    });
    if is_promised {
        let percent = ns as f64 * 100.0 / (LONG / 3).as_nanos() as f64;
        let figure = Figure::new("sample.core_pct.busy_1", percent, "% of a core");
        report.put(figure.promised(Promise::AtMost(0.6)));
    }
    if depth == 100 {
        let stats = sampling.stats()?;
        let frame = stats.unwinding_ns as f64 / stats.frames.max(1) as f64;
        let figure = Figure::new("sample.unwind_ns_per_frame", frame, "ns");
        report.put(figure.promised(Promise::AtMost(15.0)));
        let figure = Figure::new(
            "sample.allocations",
            each(allocations).round(),
            "per sample",
        );
        report.put(figure.promised(Promise::AtMost(0.0)));
    }
    Ok(())
}

/// Returns the costs of the second third of a run.
fn warm(sampling: &Sampling) -> Result<SampleCost> {
    std::thread::sleep(LONG / 3);
    let ns = sampler_ns()?;
    let before = sampling.stats()?;
    // The sampler reads the list of modules once a second, which allocates. So most of these parts
    // contain samples only.
    let mut allocations: Vec<_> = (0..10)
        .map(|_| allocations_everywhere_during(|| std::thread::sleep(LONG / 30)))
        .collect();
    allocations.sort_unstable();
    let allocations = allocations.get(5).map_or(0, |median| median * 10);
    let after = sampling.stats()?;
    Ok(SampleCost {
        sampler_ns: sampler_ns()? - ns,
        handlers_ns: after.handlers_ns - before.handlers_ns,
        samples: after.taken - before.taken,
        allocations,
    })
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
    report.put(Figure::new("sample.slowdown_pct", percent, "%").promised(Promise::AtMost(1.0)));
    Ok(())
}
