//! All groups of all processes at one time, as plain data that serialises.

use std::fmt;

use profiler_core::groups::{GroupKind, Probes};
use profiler_core::ids::{GroupIndex, PoolId, ProcessId};
use profiler_core::internal::reader::groups::GroupTotals;
use serde::{Serialize, Serializer};

/// Identity of a group in a process, for as long as the session lasts; another life of the process is another group. Shown
/// as text that is not to be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Which process, beyond doubt.
    pub pool: PoolId,
    /// Which of the process's own sessions.
    pub epoch: u64,
    /// Which of its groups.
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

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProcessStanding {
    /// It runs.
    Live,
    /// It stands still: it was stopped, or is in a debugger. Its numbers are those of when it stopped.
    Frozen,
    /// It has ended. Its numbers are final.
    Gone,
}

/// How a row compares with the snapshot before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
    /// It was there, or nothing was compared.
    #[default]
    Known,
    /// It was not there: its difference is against zero.
    New,
    /// It is not there any more: its process is not listed any more, and what it last came to is in `last`.
    Gone,
}

/// A group of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupRow {
    /// Identity.
    pub id: GroupId,
    /// What it stands for.
    pub kind: GroupKind,
    /// Shown name. That of a process's own group is the process's.
    pub name: String,
    /// What else is known of it.
    pub labels: Vec<(String, String)>,
    /// Whether it is measured only with [`Probes::FINE`].
    pub is_fine: bool,
    /// What it came to; in a difference, what was added.
    pub totals: GroupTotals,
    /// How it compares with the snapshot before.
    pub status: RowStatus,
    /// In a difference, what it came to in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<GroupTotals>,
}

/// The groups of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessGroups {
    /// Which process, beyond doubt. Shown as text.
    #[serde(serialize_with = "as_hex")]
    pub pool: PoolId,
    /// System number.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// What it is doing.
    pub standing: ProcessStanding,
    /// What it measures. A child that has just been started, or is stopped, may still measure what it did before.
    #[serde(serialize_with = "as_names")]
    pub probes: Probes,
    /// Groups that found no room: their numbers are nowhere.
    pub left_out: u64,
    /// Its groups, in the order in which they came.
    pub groups: Vec<GroupRow>,
}

impl ProcessGroups {
    /// Its group of this kind and name.
    pub fn group(&self, kind: GroupKind, name: &str) -> Option<&GroupRow> {
        self.groups.iter().find(|row| row.kind == kind && row.name == name)
    }
}

/// A process whose groups are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingProcess {
    /// System number.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// All groups of all processes at one time, or what was added between two times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupsSnapshot {
    /// When it was taken, in nanoseconds since the session's start.
    pub at_ns: i64,
    /// The same in wall time, nanoseconds since the Unix epoch.
    pub date_unix_ns: u64,
    /// In a difference, the nanoseconds between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<u64>,
    /// The processes, the parent first, then in the order in which they came.
    pub processes: Vec<ProcessGroups>,
    /// Processes that could not be read.
    pub missing: Vec<MissingProcess>,
}

impl GroupsSnapshot {
    /// The process of this name that came first.
    pub fn process(&self, name: &str) -> Option<&ProcessGroups> {
        self.processes.iter().find(|process| process.name == name)
    }

    /// All rows, each with its process.
    pub fn rows(&self) -> impl Iterator<Item = (&ProcessGroups, &GroupRow)> {
        self.processes.iter().flat_map(|process| process.groups.iter().map(move |row| (process, row)))
    }

    /// Whether a group of that identity is in it.
    pub fn row(&self, id: GroupId) -> Option<&GroupRow> {
        let process = self.processes.iter().find(|process| process.pool == id.pool)?;
        process.groups.iter().find(|row| row.id == id)
    }
}

fn as_hex<S: Serializer>(pool: &PoolId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:032x}", pool.get()))
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde calls
fn as_names<S: Serializer>(probes: &Probes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(probes.names())
}
