//! One process of a profile, apart from its entries: the data that all its tables share.
//!
//! Each format makes one per process and passes it to the writers of its tables.

use super::marker_rows::MarkerTimes;
use crate::{ProcessRole, ProfileSpec, RangeLimits};
use profiler_core::internal::reader::Snapshot;
use profiler_core::time::{SessionClock, TimeConverter, Timestamp};

/// See the [module](self).
#[derive(Debug)]
pub struct ProcessModel<'a> {
    /// Its names, threads and entry counts.
    pub snapshot: &'a Snapshot,
    /// The decisions that all processes of the profile share.
    pub spec: &'a ProfileSpec,
    /// The identity of the process in the profile.
    pub role: &'a ProcessRole,
    /// The session's clock.
    pub clock: SessionClock,
    /// When the process ended, if it is known to have ended.
    pub ended: Option<Timestamp>,
    /// Entries that began later are left out.
    pub until: Option<Timestamp>,
    converter: TimeConverter,
}

impl<'a> ProcessModel<'a> {
    /// The model of the process with this snapshot.
    pub fn new(
        snapshot: &'a Snapshot,
        spec: &'a ProfileSpec,
        role: &'a ProcessRole,
        clock: SessionClock,
        ended: Option<Timestamp>,
    ) -> Self {
        Self {
            snapshot,
            spec,
            role,
            clock,
            ended,
            until: None,
            converter: clock.converter(spec.later),
        }
    }

    /// The same process in a profile that ends at `until`.
    pub fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }

    /// The profile's range of time, as far as it is limited, in nanoseconds from the session's
    /// start.
    pub fn limits(&self) -> RangeLimits {
        RangeLimits {
            from_ns: self.spec.since.map(|at| self.ns(at)),
            to_ns: self.until.map(|at| self.ns(at)),
        }
    }

    /// The times of a marker of the profiler itself, cut to the profile's range.
    pub fn interval_in_range(&self, start_ns: i64, end_ns: i64) -> MarkerTimes {
        let limits = self.limits();
        MarkerTimes::interval(limits.clamp(start_ns), limits.clamp(end_ns))
    }

    /// Nanoseconds from the session's start.
    pub fn ns(&self, at: Timestamp) -> i64 {
        self.converter.since_start_ns(at)
    }

    /// As [`Self::ns`], for a time that the program chose. A time that is more than an hour after the
    /// capture is that of the capture, because it would stretch the time line of the profile.
    pub fn marker_ns(&self, at: Timestamp) -> i64 {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let (ns, capture) = (self.ns(at), self.capture_ns());
        if ns.saturating_sub(capture) > HOUR_NS {
            capture
        } else {
            ns
        }
    }

    /// Nanoseconds from the session's start to the capture.
    pub fn capture_ns(&self) -> i64 {
        self.ns(self.spec.later.ticks)
    }

    /// Nanoseconds from the session's start to the start of recording in this process.
    pub fn recording_start_ns(&self) -> i64 {
        self.ns(self.snapshot.header.recording_start)
    }

    /// Time between two ticks of the sampler, in nanoseconds.
    pub fn interval_ns(&self) -> i64 {
        let params = self.snapshot.header.params.as_ref();
        params.map_or(0, |params| i64::try_from(params.interval_ns).unwrap_or(0))
    }

    /// Nanoseconds from the session's start to the end of the process, or else to the capture, or
    /// to the end of the profile's range if that is earlier.
    pub fn end_ns(&self) -> i64 {
        let end_ns = self
            .ended
            .map_or_else(|| self.capture_ns(), |at| self.ns(at));
        self.limits()
            .to_ns
            .map_or(end_ns, |to_ns| to_ns.min(end_ns))
    }

    /// Whether nothing is left of the main thread.
    pub fn lacks_main(&self) -> bool {
        !self.snapshot.threads.iter().any(|thread| thread.is_main)
    }
}
