//! A recording session around a measurement, and the honest look at what became of its entries.
//!
//! Used by the group `record`. Invariant: a figure over recorded entries is valid only if at
//! most one entry in a thousand was dropped; dropping is faster or slower than recording, never the same.

use anyhow::{Context, Result};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};

/// Most drops per entry that a figure may contain.
const MOST_DROPPED: f64 = 0.001;

/// A running session; it stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Recording(());

impl Recording {
    /// Starts a session in this process. Call it before pinning: the profiler's own thread would
    /// inherit the pin and share the core with the thread that is measured.
    pub(crate) fn start(limit: u64) -> Result<Self> {
        let params = SessionParams { limit: ByteLimit::new(limit), ..SessionParams::default() };
        session::start(params, StartOptions::default()).context("cannot start a session")?;
        Ok(Self(()))
    }

    /// What the pool says now.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let reader = PoolReader::open(session::pool_file()?)?;
        Ok(reader.snapshot()?)
    }

    /// The books of everything recorded so far.
    pub(crate) fn counts(&self) -> Result<EntryCounts> {
        Ok(self.snapshot()?.counts())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Why figures over these entries are not valid, if `expected` entries were to be recorded.
pub(crate) fn objection(counts: &EntryCounts, expected: u64) -> Option<String> {
    let (recorded, dropped) = (counts.recorded(), counts.dropped.total());
    if recorded != expected {
        return Some(format!("{recorded} entries are in the books, {expected} were recorded"));
    }
    let reasons: Vec<_> =
        counts.dropped.iter().map(|(reason, count)| format!("{count} {}", reason.name())).collect();
    let too_many = dropped as f64 > recorded as f64 * MOST_DROPPED;
    too_many.then(|| format!("of {recorded} entries were dropped: {}", reasons.join(", ")))
}
