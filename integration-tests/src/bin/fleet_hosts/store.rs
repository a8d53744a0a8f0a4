//! What the store has of a fleet, and what it needed for it.

use anyhow::{Context, Result};
use integration_tests::clickhouse::Cluster;

use super::usage::ProcessUsage;

/// What two servers have and have used.
#[derive(Clone, Debug)]
pub(crate) struct StoreReport {
    /// The samples that questions count.
    pub(crate) samples: u64,
    /// The samples that are stored, also those of repeated batches that are not merged yet.
    pub(crate) stored_samples: u64,
    pub(crate) hosts: u64,
    /// Bytes of all tables on disk.
    pub(crate) disk_bytes: u64,
    /// Active parts of all tables.
    pub(crate) parts: u64,
    /// Processor time of the servers, in milliseconds.
    pub(crate) cpu_ms: u64,
    pub(crate) rss_kib: u64,
}

/// Asks the servers.
pub(crate) fn report(cluster: &Cluster) -> Result<StoreReport> {
    let number = |question: &str| -> Result<u64> {
        let answer = cluster.execute(question)?;
        let answer = answer.trim();
        answer
            .parse()
            .with_context(|| format!("{question}: {answer:?}"))
    };
    let of_parts = |column: &str| -> Result<u64> {
        let question =
            format!("SELECT {column} FROM system.parts WHERE active AND database = 'profiler'");
        let answers = cluster.execute_on_each(&question)?;
        let numbers = answers
            .iter()
            .filter_map(|answer| answer.trim().parse::<u64>().ok());
        Ok(numbers.sum())
    };
    let mut used = ProcessUsage::default();
    for server in cluster.processes() {
        let of_server = ProcessUsage::of(server)?;
        used.cpu_ms += of_server.cpu_ms;
        used.rss_kib += of_server.rss_kib;
    }
    Ok(StoreReport {
        samples: number("SELECT sum(length(sample.stack)) FROM profiler_samples FINAL")?,
        stored_samples: number("SELECT sum(length(sample.stack)) FROM profiler_samples")?,
        hosts: number("SELECT uniqExact(host) FROM profiler_samples")?,
        disk_bytes: of_parts("sum(bytes_on_disk)")?,
        parts: of_parts("count()")?,
        cpu_ms: used.cpu_ms,
        rss_kib: used.rss_kib,
    })
}
