//! The numbers of a session since its start, for metrics: what groups and processes have done, and
//! the memory of the session.
//!
//! `profiler-prometheus` writes them as text. Invariants:
//!
//! - Nothing is read between requests, and nothing more than once a second. No process receives a
//!   message.
//! - A sum never falls while the session lives, also if processes end and are no longer listed: the
//!   process table keeps their sums ([`crate::process_table::session_sums`]).
//! - The number of rows is bounded: at most 1,000 groups, 200 names of processes and 20
//!   destinations of pushers have rows of their own, and one row has the sum of all further ones.
//!
//! ```text
//! pools ──▶ groups::SnapshotReader ──┐
//! pools ──▶ entry counts ────────────┤
//! process table: processes, sums ────┼─▶ reader: at most 1/s ──▶ MetricsReading
//! pushers: sums ─────────────────────┤
//! memory limit ──────────────────────┘
//! ```

mod reader;

use std::sync::Arc;

pub use reader::MetricsReader;
pub(crate) use reader::MetricsSources;

use crate::process_table::session_sums::{GroupKey, GroupSum, ProcessSum};
use crate::process_table::{PoolMemory, ProcessActivity};
use crate::push_sums::PushReading;

/// What readings have cost since the session's start.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrapeCost {
    /// Readings that were asked for.
    pub scrapes: u64,
    /// Those for which the pools were read.
    pub readings: u64,
    /// The time that reading and writing took.
    pub busy_ns: u64,
}

/// The numbers of one reading of all pools.
#[derive(Clone, Debug, Default)]
pub struct MetricsReading {
    /// The start of the session, in nanoseconds since 1970.
    pub session_start_unix_ns: u64,
    /// The memory of all pools together.
    pub budget: Budget,
    /// One row for each name; the last one may be that of further names.
    pub processes: Vec<ProcessMetricsRow>,
    /// The sums of groups.
    pub groups: Vec<(GroupKey, GroupSum)>,
    /// The sum of further groups.
    pub other_groups: Option<GroupSum>,
    /// The number of further groups.
    pub groups_in_other: u64,
    /// Processes whose groups could not be read.
    pub unread: u64,
    /// What pushers have done, if there has been one.
    pub pushed: Option<PushReading>,
}

/// The memory of all pools together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// The limit of the session.
    pub limit: u64,
    /// What is charged at present.
    pub charged: u64,
    /// The largest sum so far.
    pub peak: u64,
}

/// The processes of one name.
#[derive(Clone, Debug)]
pub struct ProcessMetricsRow {
    /// The name.
    pub name: Arc<str>,
    /// What they have done since the start of the session.
    pub sum: ProcessSum,
    /// What they do at present.
    pub present: PresentProcesses,
}

/// What the processes of one name are doing.
#[derive(Clone, Copy, Debug, Default)]
pub struct PresentProcesses {
    /// Their number by activity, in the order of [`ProcessActivity::ALL`].
    pub by_activity: [u64; ProcessActivity::ALL.len()],
    /// The memory of their pools.
    pub memory: PoolMemory,
    /// Entries of their pools that profiles leave out.
    pub left_out: u64,
}
