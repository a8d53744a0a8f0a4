//! A recording session around a measurement, and the check of what became of its entries.
//!
//! Used by the groups `record` and `groups`. Invariant: a figure over recorded entries is valid
//! only if at most one entry in a thousand was dropped, because a drop does not take the same time
//! as a recording.

use anyhow::{Context, Result};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::session::EntryCounts;
use profiler_core::session::{self, SessionParams, StartOptions};

/// The largest part of dropped entries in a valid figure.
const MAX_DROPPED: f64 = 0.001;

/// A running session. It stops when the value is dropped.
#[derive(Debug)]
pub(crate) struct Recording(());

impl Recording {
    /// Starts a session in this process. Must be called before pinning: otherwise the profiler's
    /// own thread inherits the pin and shares the core with the measured thread.
    pub(crate) fn start(limit: u64) -> Result<Self> {
        let params = SessionParams {
            limit: ByteLimit::new(limit),
            ..SessionParams::default()
        };
        session::start(params, StartOptions::default()).context("cannot start a session")?;
        Ok(Self(()))
    }

    /// Returns a snapshot of the pool.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let reader = PoolReader::open(session::pool_file()?)?;
        Ok(reader.snapshot()?)
    }

    /// Returns the counts of everything recorded so far.
    pub(crate) fn counts(&self) -> Result<EntryCounts> {
        Ok(self.snapshot()?.counts())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Returns why figures over these entries are not valid. `expected` is the number of entries that
/// the measurement has recorded.
pub(crate) fn objection(counts: &EntryCounts, expected: u64) -> Option<String> {
    let recorded = counts.recorded();
    let dropped = counts.dropped.total();
    if recorded != expected {
        return Some(format!(
            "{recorded} entries are in the counts, {expected} were recorded"
        ));
    }
    let reasons: Vec<_> = counts
        .dropped
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.name()))
        .collect();
    let too_many = dropped as f64 > recorded as f64 * MAX_DROPPED;
    too_many.then(|| format!("of {recorded} entries were dropped: {}", reasons.join(", ")))
}
