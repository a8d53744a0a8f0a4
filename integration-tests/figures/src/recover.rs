//! Recovery: how many bytes of pools become a profile per second, as `profiler recover` does it.
//!
//! Four children record 72 MiB each into pools that are files; at full speed some entries may be
//! dropped. Then the profile is written from the files, as plain JSON and compressed. Only the
//! bytes of committed entries count.

use std::time::Instant;

use anyhow::{Context, Result};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::reader::PoolReader;
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use profiler_parent::recover::recover;

use crate::workers;
use integration_tests::figure::{Figure, Report};
use integration_tests::measure::median;

const CHILDREN: usize = 4;
const BYTES_EACH: u64 = 72 << 20;
const AT_LEAST: u64 = 256 << 20;
const RUNS: usize = 3;
/// Bytes per megabyte.
const MB: f64 = 1e6;

/// All figures of recovery.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let place = tempfile::tempdir()?;
    let session = Session::builder()
        .features(Features::NONE)
        .memory_limit(ByteLimit::new(512 << 20))
        .pool_directory(place.path().join("pools"))
        .start()?;
    let mut workers = workers::start_all(&session, CHILDREN, "fill", "fill", |_| BYTES_EACH)?;
    let pools = session.pool_directory().context("no pool directory")?;
    let committed = committed_bytes(pools)?;
    let too_few = (committed < AT_LEAST).then(|| format!("only {committed} bytes were recorded"));
    report.put(Figure::new("recover.pool_mb", committed as f64 / MB, "MB"));
    for (figure, file) in [
        ("recover.mb_s", "profile.json"),
        ("recover.gzip_mb_s", "profile.json.gz"),
    ] {
        let target = place.path().join(file);
        let mut rates = Vec::new();
        for _ in 0..RUNS {
            #[allow(clippy::disallowed_methods)] // a stopwatch around the recovery
            let began = Instant::now();
            recover(pools, &target, profiler_parent::Format::Gecko)?;
            rates.push(committed as f64 / MB / began.elapsed().as_secs_f64());
        }
        report.put(Figure::new(figure, median(&rates), "MB/s").unless(too_few.clone()));
    }
    for worker in &mut workers {
        worker.child.wait()?;
    }
    Ok(())
}

/// Returns the bytes of all committed entries.
fn committed_bytes(pools: &std::path::Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(pools)? {
        let snapshot = PoolReader::open(std::fs::File::open(entry?.path())?)?.snapshot()?;
        bytes += snapshot.chunks().map(|chunk| chunk.bytes).sum::<u64>();
    }
    Ok(bytes)
}
