//! The cost of threads that wait: processor time of the sampler, and bytes recorded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session;

use super::cost::sampler_ns;
use super::session::Sampling;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::monotonic_ns;

/// Time until all threads are known.
const SETTLED: Duration = Duration::from_secs(6);
const TIME: Duration = Duration::from_secs(10);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    for (threads, most_pct) in [(200, 0.1), (2000, 0.5)] {
        idle(report, threads, most_pct)?;
    }
    Ok(())
}

fn idle(report: &mut Report, threads: usize, most_pct: f64) -> Result<()> {
    let _sampling = Sampling::start()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wait = || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let all: Vec<_> = (0..threads)
            .map(|_| {
                std::thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn_scoped(scope, wait)
            })
            .collect::<std::io::Result<_>>()?;
        std::thread::sleep(SETTLED);
        let measured = measure_now();
        stop.store(true, Ordering::Relaxed);
        all.iter().for_each(|thread| thread.thread().unpark());
        let (pct, bytes_per_s) = measured?;
        let name = format!("sample.idle_cpu_pct.threads_{threads}");
        report.put(Figure::new(name, pct, "% of a core").promised(Promise::AtMost(most_pct)));
        let name = format!("sample.idle_bytes_per_s.threads_{threads}");
        report.put(Figure::new(name, bytes_per_s, "bytes").promised(Promise::AtMost(1024.0)));
        Ok(())
    })
}

/// The share of a core that the sampler takes, and the bytes recorded per second.
fn measure_now() -> Result<(f64, f64)> {
    let begin = monotonic_ns();
    let ns = sampler_ns()?;
    let bytes = recorded_bytes()?;
    std::thread::sleep(TIME);
    let took = monotonic_ns() - begin;
    let pct = (sampler_ns()? - ns) as f64 * 100.0 / took;
    let recorded = recorded_bytes()?.saturating_sub(bytes);
    Ok((pct, recorded as f64 * 1e9 / took))
}

/// The bytes of all entries. Nothing is evicted: the limit is far above.
fn recorded_bytes() -> Result<u64> {
    let snapshot = PoolReader::open(session::pool_file()?)?.snapshot()?;
    Ok(snapshot.chunks().map(|chunk| chunk.bytes).sum())
}
