//! All groups of all processes at one time, as plain data that serialises.
//!
//! Made by [`super::snapshot_reader`], read by applications, alerts and the live page.

use std::fmt;

use profiler_core::groups::{GroupKind, Probes};
use profiler_core::ids::{GroupIndex, PoolId, ProcessId};
use profiler_core::internal::reader::groups::GroupTotals;
use serde::{Serialize, Serializer};

/// Identity of a group in a process, valid for one session. A process that is started again has
/// another identity. The displayed text is opaque: do not parse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// The identity of the process.
    pub pool: PoolId,
    /// The number of the process's own session.
    pub epoch: u64,
    /// The number of the group.
    pub number: GroupIndex,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}.{}.{}", self.pool.get(), self.epoch, self.number)
    }
}

impl Serialize for GroupId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProcessStanding {
    /// It runs.
    Live,
    /// It is stopped, for example by a signal or a debugger. Its totals date from the stop.
    Frozen,
    /// It has ended. Its totals are final.
    Gone,
}

/// A row's status compared with the previous snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
    /// It existed before, or nothing was compared.
    #[default]
    Known,
    /// It is new: its difference is against zero.
    New,
    /// It is no longer in the snapshot, because its process is no longer listed; `last` has its
    /// last totals.
    Gone,
}

/// A group of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRow {
    /// Identity.
    pub id: GroupId,
    /// Its kind.
    pub kind: GroupKind,
    /// Shown name. A process's own group has the name of the process.
    pub name: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Whether it is measured only with [`Probes::FINE`].
    pub is_fine: bool,
    /// Its totals; in a difference, the increase.
    pub totals: GroupTotals,
    /// Its status compared with the previous snapshot.
    pub status: RowStatus,
    /// In a difference, the absolute totals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<GroupTotals>,
}

/// The groups of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessGroups {
    /// The identity of the process. Shown as text.
    #[serde(serialize_with = "as_hex")]
    pub pool: PoolId,
    /// System number.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// The state of the process.
    pub standing: ProcessStanding,
    /// The probes that it measures. A child that has just been started, or is stopped, may still
    /// measure its previous probes.
    #[serde(serialize_with = "as_names")]
    pub probes: Probes,
    /// The number of groups that found no room and have no totals.
    pub left_out: u64,
    /// Its groups, in the order of creation.
    pub groups: Vec<GroupRow>,
}

impl ProcessGroups {
    /// Returns its group of this kind and name.
    pub fn group(&self, kind: GroupKind, name: &str) -> Option<&GroupRow> {
        self.groups
            .iter()
            .find(|row| row.kind == kind && row.name == name)
    }
}

/// A process whose groups could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingProcess {
    /// The identity of the process. Shown as text.
    #[serde(serialize_with = "as_hex")]
    pub pool: PoolId,
    /// System number.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// All groups of all processes at one time, or the increase between two times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupsSnapshot {
    /// When it was taken, in nanoseconds since the session's start.
    pub at_ns: i64,
    /// The same time as wall time, in nanoseconds since the Unix epoch.
    pub date_unix_ns: u64,
    /// In a difference, the nanoseconds between the two snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// The processes, the parent first, then in the order in which they joined.
    pub processes: Vec<ProcessGroups>,
    /// Processes that could not be read.
    pub missing: Vec<MissingProcess>,
}

impl GroupsSnapshot {
    /// Returns the first process of this name.
    pub fn process(&self, name: &str) -> Option<&ProcessGroups> {
        self.processes.iter().find(|process| process.name == name)
    }

    /// All rows, each with its process.
    pub fn rows(&self) -> impl Iterator<Item = (&ProcessGroups, &GroupRow)> {
        self.processes
            .iter()
            .flat_map(|process| process.groups.iter().map(move |row| (process, row)))
    }

    /// Returns the group with that identity, if the snapshot contains it.
    pub fn row(&self, id: GroupId) -> Option<&GroupRow> {
        let process = self
            .processes
            .iter()
            .find(|process| process.pool == id.pool)?;
        process.groups.iter().find(|row| row.id == id)
    }
}

fn as_hex<S: Serializer>(pool: &PoolId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:032x}", pool.get()))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde requires
fn as_names<S: Serializer>(probes: &Probes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(probes.names())
}
