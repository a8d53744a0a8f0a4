//! Who is slow, now: the groups of all processes, read straight from their pools.
//!
//! [`Session::groups`](crate::Session::groups) and [`Session::monitor`](crate::Session::monitor) are the doors; alerts and the live
//! page stand on them. No child is asked, so none can hold a snapshot up: one that stands still is read and named as frozen,
//! one that is dead keeps its final totals, one whose pool cannot be read is named as missing.
//! What groups are and how they are counted is in [`profiler_core::groups`].

mod delta;
mod desk;
mod merged;
mod read;
mod snapshot;
mod standings;

pub(crate) use desk::Desk;
pub use desk::Monitor;
pub use merged::{Member, MergedGroup};
pub use profiler_core::groups::{GroupKind, Probes};
pub use profiler_core::reader::groups::{GroupTotals, Histogram, Peak};
pub(crate) use read::{final_groups, lately, snapshot};
pub use snapshot::{
    GroupId, GroupRow, GroupsSnapshot, MissingProcess, ProcessGroups, ProcessStanding, RowStatus,
};
