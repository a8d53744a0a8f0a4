//! The cost of observers for the observed thread, and the delay until an observer receives a
//! marker.
//!
//! A thread records bursts on the first core. The reader thread and the observers run on the last
//! core. Every round measures each number of observers, so a change of the machine's speed affects
//! all.

use std::time::Duration;

use anyhow::{Result, ensure};
use profiler_core::marker;
use profiler_core::marker::category;
use profiler_core::session::Features;
use profiler_parent::Session;
use profiler_parent::observe::{Filter, Forwarding};

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median, median_ratio, monotonic_ns, ns_each, pin_to};

const ROUNDS: usize = 15;
/// Bursts per measurement, with a pause after each: about half a million markers a second.
const BURSTS: usize = 60;
const BURST: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(4);
const OBSERVERS: [usize; 3] = [0, 1, 16];
/// Number of markers whose delay is measured.
const TIMED: usize = 200;

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let session = Session::builder()
        .features(Features::NONE)
        .name("figures")
        .start()?;
    let mut costs: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (costs, count) in costs.iter_mut().zip(OBSERVERS) {
            costs.push(cost_with(&session, count)?);
        }
    }
    let [alone, ..] = &costs;
    for (with, count) in costs.iter().zip(OBSERVERS) {
        let name = format!("observers.record_cost.{count}");
        let ratio = if count == 0 {
            1.0
        } else {
            median_ratio(with, alone)
        };
        report.put(Figure::new(name, ratio, "ratio").promised(Promise::AtMost(1.05)));
    }
    report.put(Figure::new("observers.record_cost.ns", median(alone), "ns"));
    let p99 = latency_ms(&session)?;
    report.put(Figure::new("observers.latency_ms.p99", p99, "ms").promised(Promise::AtMost(250.0)));
    Ok(())
}

/// Returns the nanoseconds per marker with `observers` observers that receive everything.
fn cost_with(session: &Session, observers: usize) -> Result<f64> {
    let cores = cores();
    let last = cores.last().copied().unwrap_or(0);
    let served: Result<Vec<Forwarding>> = {
        let _elsewhere = pin_to(last); // new threads inherit the pin
        let observe = |_| Ok(session.observe(Filter::default())?.forward(drop)?);
        (0..observers).map(observe).collect()
    };
    let served = served?;
    let _here = pin_to(cores.first().copied().unwrap_or(0));
    let bursts: Vec<f64> = (0..BURSTS)
        .map(|_| {
            let ns = ns_each(BURST, || marker!("observed", &category::TEST));
            std::thread::sleep(PAUSE);
            ns
        })
        .collect();
    drop(served);
    Ok(median(&bursts))
}

/// Returns the milliseconds from a marker to its observer: the maximum without the slowest
/// hundredth.
fn latency_ms(session: &Session) -> Result<f64> {
    let observer = session.observe(Filter::default().name("timed"))?;
    let recorder = std::thread::Builder::new().spawn(|| {
        for number in 0..TIMED as u64 {
            marker!("timed", &category::TEST);
            std::thread::sleep(Duration::from_micros(7_000 + number * 7_919 % 9_000));
        }
    })?;
    let mut late = Vec::new();
    while late.len() < TIMED {
        let batch = observer.next(Duration::from_secs(20))?;
        let now = monotonic_ns() - batch.clock.start_monotonic.0 as f64;
        late.extend(
            batch
                .markers
                .iter()
                .map(|marker| (now - marker.start.0 as f64) / 1e6),
        );
    }
    ensure!(recorder.join().is_ok(), "the recording thread panicked");
    late.sort_by(f64::total_cmp);
    Ok(late.get(TIMED * 99 / 100).copied().unwrap_or(f64::NAN))
}
