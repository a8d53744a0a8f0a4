//! Whose data a batch is, and which batch of the session it is.
//!
//! Every row begins with these columns. Invariant: host, session and batch together identify a
//! batch, so the numbers of a session's batches must differ.

use crate::reading::{Meta, Survey};

/// What the caller knows about a profile and the profile itself does not say. A member that is
/// `None` is taken from the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetLabels {
    /// Name of the service; otherwise the name of the profile's parent process.
    pub service: Option<String>,
    /// Version of the service; otherwise empty.
    pub version: Option<String>,
    /// Name of the host; otherwise the one in the profile, or empty.
    pub host: Option<String>,
    /// Number of the batch within the session; otherwise the end of the profile's range, in
    /// nanoseconds since the session's start.
    pub batch: Option<u64>,
}

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
const MOST_NS: i64 = 1 << 62;

impl BatchIdentity {
    /// The identity of a profile.
    pub(crate) fn of(survey: &Survey, labels: &FleetLabels) -> Self {
        let meta = &survey.meta;
        let or = |label: &Option<String>, own: Option<&str>| {
            let own = || own.unwrap_or_default().to_owned();
            label.clone().unwrap_or_else(own)
        };
        Self {
            service: or(&labels.service, meta.product.as_deref()),
            version: or(&labels.version, None),
            host: or(&labels.host, meta.host()),
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
    exact.or_else(rounded).unwrap_or(0).clamp(0, MOST_NS)
}

fn range_end_ns(meta: &Meta) -> u64 {
    // Negative times and NaN become 0.
    meta.profiling_end_time.map_or(0, |ms| (ms * 1e6) as u64)
}
