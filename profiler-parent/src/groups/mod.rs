//! The groups of all processes, read from their pools. They show which groups are slow now.
//!
//! Applications call [`Session::groups`](crate::Session::groups) and
//! [`Session::monitor`](crate::Session::monitor); alerts, the live page and the metrics for
//! Prometheus use the same reader. No child is asked, so no child can delay a snapshot. A stopped
//! process is read and reported as frozen, a dead process keeps its final totals, and a process
//! whose pool cannot be read is listed as missing. [`profiler_core::groups`] defines groups and
//! their totals.

mod delta;
mod merged;
mod probe_registry;
mod reader_cache;
mod snapshot;
mod snapshot_reader;
mod stopped_cache;

pub use merged::{Member, MergedGroup};
pub use probe_registry::Monitor;
pub(crate) use probe_registry::ProbeRegistry;
pub use profiler_core::groups::{GroupKind, Probes};
pub use profiler_core::internal::reader::groups::{GroupTotals, Histogram, Peak};
pub use snapshot::{
    GroupId, GroupRow, GroupsSnapshot, MissingProcess, ProcessGroups, ProcessStanding, RowStatus,
};
pub(crate) use snapshot_reader::{SnapshotReader, largest_groups, read_groups};

/// The probes that are on while a page or a scraper shows groups.
pub const SHOWN_PROBES: Probes = Probes::JANK.with(Probes::CPU).with(Probes::BLOCKING);
