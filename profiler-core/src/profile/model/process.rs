//! One process of a profile, apart from its entries: the data that all its tables share.
//!
//! Each format makes one per process and passes it to the writers of its tables.

use crate::profile::spec::{ProcessRole, ProfileSpec};
use crate::reader::Snapshot;
use crate::time::{SessionClock, TimeConverter, Timestamp};

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
            converter: clock.converter(spec.later),
        }
    }

    /// Nanoseconds from the session's start.
    pub fn ns(&self, at: Timestamp) -> i64 {
        self.converter.since_start_ns(at)
    }

    /// Nanoseconds from the session's start to the capture.
    pub fn capture_ns(&self) -> i64 {
        self.ns(self.spec.later.ticks)
    }

    /// Nanoseconds from the session's start to the start of recording in this process.
    pub fn recording_start_ns(&self) -> i64 {
        self.ns(self.snapshot.header.recording_start)
    }

    /// Nanoseconds from the session's start to the end of the process, or else to the capture.
    pub fn end_ns(&self) -> i64 {
        self.ended
            .map_or_else(|| self.capture_ns(), |at| self.ns(at))
    }

    /// Whether nothing is left of the main thread.
    pub fn lacks_main(&self) -> bool {
        !self.snapshot.threads.iter().any(|thread| thread.is_main)
    }
}
