//! The identity of a batch: service, version, host, session and number.
//!
//! Every row begins with these columns. Invariant: host, session and batch together identify a
//! batch, so the numbers of a session's batches must differ.

use crate::FleetLabels;
use profiler_reader::{Meta, Survey};

/// The columns that all rows of a batch have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchIdentity {
    pub(super) service: String,
    pub(super) version: String,
    pub(super) host: String,
    /// The start of the session, in nanoseconds since 1970.
    pub(super) session: i64,
    pub(super) batch: u64,
}

/// Limit on a session's start, in nanoseconds since 1970 (146 years), so that adding times of the
/// session does not overflow.
const MAX_NS: i64 = 1 << 62;

impl BatchIdentity {
    /// The identity of a profile, to whose `meta` the labels have been applied.
    pub(crate) fn of(survey: &Survey, labels: &FleetLabels) -> Self {
        let meta = &survey.meta;
        let text = |of: Option<&str>| of.unwrap_or_default().to_owned();
        Self {
            service: text(meta.product.as_deref()),
            version: text(meta.service_version.as_deref()),
            host: text(meta.host()),
            session: start_unix_ns(meta),
            batch: labels.batch.unwrap_or_else(|| range_end_ns(meta)),
        }
    }

    /// The instant that is `ns` nanoseconds after the session's start, in nanoseconds since 1970.
    pub(super) const fn unix_ns(&self, ns: i64) -> i64 {
        self.session.saturating_add(ns)
    }
}

fn start_unix_ns(meta: &Meta) -> i64 {
    let exact = meta.start_unix_ns.and_then(|ns| i64::try_from(ns).ok());
    let rounded = || meta.start_time.map(|ms| (ms * 1e6) as i64);
    exact.or_else(rounded).unwrap_or(0).clamp(0, MAX_NS)
}

fn range_end_ns(meta: &Meta) -> u64 {
    // Negative times and NaN become 0.
    meta.profiling_end_time.map_or(0, |ms| (ms * 1e6) as u64)
}
