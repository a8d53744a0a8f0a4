//! Measures the cost of idle threads: `storms rests SECONDS THREADS` prints the share of a
//! processor and the entries per second.

use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::patience::Stopwatch;
use profiler_core::session;

pub(crate) fn measure(seconds: u64, threads: usize) -> Result<()> {
    for _ in 0..threads {
        let body = || loop {
            std::thread::park();
        };
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(body)?;
    }
    // After this time the sampler has found all threads and has signalled each for its stack.
    std::thread::sleep(Duration::from_secs(4));
    let entries = entries()?;
    let cpu = used();
    let watch = Stopwatch::start();
    std::thread::sleep(Duration::from_secs(seconds));
    let passed = watch.elapsed().as_secs_f64();
    let busy = (used() - cpu).as_secs_f64();
    let per_second = (self::entries()? - entries) as f64 / passed;
    println!(
        "ok {:.2} % of a core, {per_second:.0} entries/s, {:?}",
        busy * 100.0 / passed,
        session::sampling_stats()
    );
    Ok(())
}

fn entries() -> Result<u64> {
    let stats = session::sampling_stats().context("nothing is sampled")?;
    Ok(stats.taken + stats.peeked + stats.repeated)
}

fn used() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        used.tv_sec.unsigned_abs(),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
