//! What a process has used, from `/proc`.

use std::fs;

use anyhow::{Context, Result};

/// A tick of `/proc/PID/stat` in milliseconds, on all common systems.
const TICK_MS: u64 = 10;

/// Processor time and memory of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessUsage {
    /// In milliseconds.
    pub(crate) cpu_ms: u64,
    pub(crate) rss_kib: u64,
    pub(crate) peak_rss_kib: u64,
}

impl ProcessUsage {
    /// Reads what a process has used so far. All its threads count, also those that have ended.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        // The fields utime and stime, which are 14 and 15 of proc(5).
        let fields = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.with_context(|| format!("no {key} of process {pid}"))
        };
        Ok(Self {
            cpu_ms: ticks * TICK_MS,
            rss_kib: kib("VmRSS:")?,
            peak_rss_kib: kib("VmHWM:")?,
        })
    }
}
