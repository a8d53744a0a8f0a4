//! The decisions of one capture that all writers of its parts share, and the summary of a part.
//!
//! The parent fills in one [`ProfileSpec`] per capture and sends it to every child, so that all
//! parts share one time conversion, one window and one category list. The child returns a
//! [`ProcessSummary`] with the written part.

use serde::{Deserialize, Serialize};

use crate::entry_counts::EntryCounts;
use crate::ids::ProcessId;
use crate::params::SessionParams;
use crate::time::{Anchor, Timestamp};

/// One row of a profile's category list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CategoryRow {
    /// Shown name, which identifies the row.
    pub name: String,
    /// One of the viewer's colours.
    pub color: String,
    /// Names of the subcategories; the first is "Other".
    pub subcategories: Vec<String>,
}

/// Decisions that every part of one capture shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileSpec {
    /// The parent's anchor at the capture. All times are converted by it and the session's anchor.
    pub later: Anchor,
    /// Entries that ended before this instant are left out.
    pub since: Option<Timestamp>,
    /// The root's category list. A category that is not in it is written as the first row.
    pub categories: Vec<CategoryRow>,
}

/// The summary of a written part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSummary {
    /// Threads in the part.
    pub threads: u32,
    /// Entry counts of all its threads together.
    pub counts: EntryCounts,
    /// The time range of its entries.
    pub shown: ShownRange,
    /// How long the writing took, in nanoseconds.
    pub writing_ns: u64,
}

/// A range of time that contains the session's start, in nanoseconds since then. Adding ranges
/// gives the range that contains both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownRange {
    /// Its beginning; not after the session's start.
    pub first_ns: i64,
    /// Its end; not before the session's start.
    pub last_ns: i64,
}

impl ShownRange {
    /// Makes the range contain this time.
    pub fn include(&mut self, ns: i64) {
        self.first_ns = self.first_ns.min(ns);
        self.last_ns = self.last_ns.max(ns);
    }
}

/// What a profile is about, if not the process that it is gathered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileSubject {
    /// Name of the program.
    pub product: String,
    /// Parameters of its recording.
    pub params: Option<SessionParams>,
    /// The command line, to be shown in the profile.
    pub arguments: Option<String>,
}

/// The limits of a profile's range of time, in nanoseconds since the session's start; `None` for no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeLimits {
    /// The first instant of the range.
    pub from_ns: Option<i64>,
    /// The last instant of the range.
    pub to_ns: Option<i64>,
}

impl RangeLimits {
    /// The instant of the range that is nearest to this one.
    pub fn clamp(&self, ns: i64) -> i64 {
        let ns = self.to_ns.map_or(ns, |to_ns| ns.min(to_ns));
        self.from_ns.map_or(ns, |from_ns| ns.max(from_ns))
    }
}

impl std::ops::AddAssign for ShownRange {
    fn add_assign(&mut self, other: Self) {
        self.include(other.first_ns);
        self.include(other.last_ns);
    }
}

/// The identity of a process in the profile. Determines how the viewer names the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRole {
    /// The process.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// Whether it is the root of the profile.
    pub is_root: bool,
}
