//! What all tables of one process are written from, apart from the entries.
//!
//! Made by [`super::ProcessPart`], borrowed by every table's writer.

use super::libs::Libs;
use super::plan::MarkerPlans;
use crate::profile::spec::{ProcessRole, ProfileSpec};
use crate::reader::Snapshot;
use crate::time::{SessionClock, TimeConverter, Timestamp};

/// One process, as its tables see it.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) spec: &'a ProfileSpec,
    pub(super) role: &'a ProcessRole,
    pub(super) clock: SessionClock,
    pub(super) converter: TimeConverter,
    /// When the process ended, as far as anyone knows.
    pub(super) ended: Option<Timestamp>,
    pub(super) plans: MarkerPlans<'a>,
    pub(super) libs: Libs<'a>,
}

impl Context<'_> {
    /// Nanoseconds from the session's start.
    pub(super) fn ns(&self, at: Timestamp) -> i64 {
        self.converter.since_start_ns(at)
    }

    /// Nanoseconds from the session's start to the capture.
    pub(super) fn capture_ns(&self) -> i64 {
        self.ns(self.spec.later.ticks)
    }

    /// Whether an entry that speaks of this instant at last belongs into the profile.
    pub(super) fn is_wanted(&self, last: Timestamp) -> bool {
        self.spec.since.is_none_or(|since| last >= since)
    }

    /// Nanoseconds from the session's start to when this process began to record.
    pub(super) fn recording_start_ns(&self) -> i64 {
        self.ns(self.snapshot.header.recording_start)
    }
}
