//! What whoever asks for a profile decides for all who write a part of it.
//!
//! The parent fills in one [`ProfileSpec`] per capture and sends it to every child, so that
//! all parts share one time conversion, one window and one category list; the summary travels
//! back beside the written part.

use serde::{Deserialize, Serialize};

use crate::ids::ProcessId;
use crate::record::losses::EntryCounts;
use crate::time::{Anchor, Timestamp};

/// One row of a profile's category list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CategoryRow {
    /// Shown name; rows are told apart by it.
    pub name: String,
    /// One of the viewer's colours.
    pub color: String,
    /// Names of the subcategories; the first is "Other".
    pub subcategories: Vec<String>,
}

/// Decisions that every part of one capture shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileSpec {
    /// The parent's anchor at the capture; with the session's own it converts all times.
    pub later: Anchor,
    /// Entries that ended before are left out.
    pub since: Option<Timestamp>,
    /// The root's category list. A category that is not in it is written as the first row.
    pub categories: Vec<CategoryRow>,
}

/// What a written part holds, told beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSummary {
    /// Threads in the part.
    pub threads: u32,
    /// Books of all its threads together.
    pub counts: EntryCounts,
}

/// Where a process stands in its application; decides how the viewer names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRole {
    /// The process.
    pub pid: ProcessId,
    /// Shown name.
    pub name: String,
    /// The root of the profile or one of its children.
    pub is_root: bool,
}
