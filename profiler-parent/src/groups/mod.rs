//! Who is slow, now: the groups of all processes, read straight from their pools.
//!
//! [`Session::groups`](crate::Session::groups) and [`Session::monitor`](crate::Session::monitor) are the doors; alerts and the live
//! page stand on them. No child is asked, so none can hold a snapshot up: one that stands still is read and named as frozen,
//! one that is dead keeps its final totals, one whose pool cannot be read is named as missing.
//! What groups are and how they are counted is in [`profiler_core::groups`].

mod delta;
mod merged;
mod probe_registry;
mod snapshot;
mod snapshot_reader;
mod stopped_cache;

pub use merged::{Member, MergedGroup};
pub(crate) use probe_registry::Desk;
pub use probe_registry::Monitor;
pub use profiler_core::groups::{GroupKind, Probes};
pub use profiler_core::reader::groups::{GroupTotals, Histogram, Peak};
pub use snapshot::{
    GroupId, GroupRow, GroupsSnapshot, MissingProcess, ProcessGroups, ProcessStanding, RowStatus,
};
pub(crate) use snapshot_reader::{final_groups, lately, snapshot};
