//! The table of groups: merged over processes, sorted, and cut to the top rows.
//!
//! Built per request from a snapshot, or from the difference of two. Sorting and cutting are done
//! here and not in the page, so the page pays only for the rows that it shows.

use std::cmp::Reverse;
use std::collections::HashMap;

use profiler_core::groups::GroupKind;
use profiler_core::internal::reader::groups::GroupTotals;
use profiler_http::Query;
use serde::Serialize;

use crate::groups::{
    GroupId, GroupsSnapshot, Member, MergedGroup, MissingProcess, ProcessStanding,
};

/// Default number of rows.
const ROWS: usize = 25;
/// Runs of more than 2^6 ms are janky.
const JANKY_BUCKET: usize = 6;

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Wall,
    Cpu,
    OffCpu,
    Blocking,
    Ticks,
    Runs,
    Median,
    P99,
    Longest,
    Janky,
    Processes,
    Kind,
    Name,
}

impl Column {
    const NAMES: [(&'static str, Self); 14] = [
        ("wall", Self::Wall),
        ("cpu", Self::Cpu),
        ("off-cpu", Self::OffCpu),
        ("blocking", Self::Blocking),
        ("ticks", Self::Ticks),
        ("runs", Self::Runs),
        ("p50", Self::Median),
        ("median", Self::Median),
        ("p99", Self::P99),
        ("longest", Self::Longest),
        ("janky", Self::Janky),
        ("processes", Self::Processes),
        ("kind", Self::Kind),
        ("name", Self::Name),
    ];

    fn of(query: &Query) -> (&'static str, Self) {
        let named = query.get("sort").unwrap_or_default();
        Self::NAMES
            .into_iter()
            .find(|(name, _)| *name == named)
            .unwrap_or(("wall", Self::Wall))
    }

    /// The sort key of a number column; text columns are compared separately.
    fn number(self, group: &MergedGroup) -> u64 {
        let totals = &group.totals;
        match self {
            Self::Wall => totals.wall_ns,
            Self::Cpu => totals.cpu_ns,
            Self::OffCpu => totals.off_cpu_ns,
            Self::Blocking => totals.blocking_ns,
            Self::Ticks => totals.ticks,
            Self::Runs => totals.runs,
            Self::Median => quantile_ns(totals, 0.5),
            Self::P99 => quantile_ns(totals, 0.99),
            Self::Longest => totals.longest_ns,
            Self::Janky => janky(totals),
            Self::Processes => group.members.len() as u64,
            Self::Kind | Self::Name => 0,
        }
    }

    /// Whether the default order is ascending: text columns start with A, number columns with the
    /// largest value.
    const fn starts_ascending(self) -> bool {
        matches!(self, Self::Kind | Self::Name)
    }
}

/// A quantile of the durations, limited to the longest run because the buckets of the histogram
/// have a width.
fn quantile_ns(totals: &GroupTotals, share: f64) -> u64 {
    let found = totals.histogram.quantile_ns(share);
    if totals.longest_ns > 0 {
        found.min(totals.longest_ns)
    } else {
        found
    }
}

/// The number of janky runs.
fn janky(totals: &GroupTotals) -> u64 {
    totals.durations.get(JANKY_BUCKET).copied().unwrap_or(0)
}

/// The totals of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Numbers {
    ticks: u64,
    runs: u64,
    wall_ns: u64,
    cpu_ns: u64,
    off_cpu_ns: u64,
    blocking_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    longest_ns: u64,
    /// Runs of more than 64 ms.
    janky: u64,
    /// The longest of the latest runs, which can be captured.
    peak: Option<Range>,
}

/// A range of session time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Range {
    from: u64,
    to: u64,
}

impl Numbers {
    fn of(totals: &GroupTotals) -> Self {
        let peak = totals.peaks.iter().max_by_key(|peak| peak.duration_ns);
        Self {
            ticks: totals.ticks,
            runs: totals.runs,
            wall_ns: totals.wall_ns,
            cpu_ns: totals.cpu_ns,
            off_cpu_ns: totals.off_cpu_ns,
            blocking_ns: totals.blocking_ns,
            median_ns: quantile_ns(totals, 0.5),
            p99_ns: quantile_ns(totals, 0.99),
            longest_ns: totals.longest_ns,
            janky: janky(totals),
            peak: peak.map(|peak| Range {
                from: peak.ended_ns.saturating_sub(peak.duration_ns),
                to: peak.ended_ns,
            }),
        }
    }
}

/// A group in one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct MemberRow<'a> {
    id: String,
    pid: u32,
    process: &'a str,
    standing: ProcessStanding,
    #[serde(flatten)]
    numbers: Numbers,
}

impl<'a> MemberRow<'a> {
    fn of(member: &'a Member) -> Self {
        Self {
            id: member.id.to_string(),
            pid: member.pid.get(),
            process: &member.process,
            standing: member.standing,
            numbers: Numbers::of(&member.totals),
        }
    }
}

/// A group in all processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row<'a> {
    /// Identifies the row in the page; the same in every snapshot.
    key: String,
    kind: GroupKind,
    name: &'a str,
    labels: &'a [(String, String)],
    processes: usize,
    #[serde(flatten)]
    numbers: Numbers,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberRow<'a>>>,
}

/// The increase of all groups since `before`, merged over processes. Equal to the merged difference
/// of the two snapshots, except that removed groups are missing. It avoids the copies which that
/// difference makes, because the page requests it every second.
pub(super) fn merged_since(now: &GroupsSnapshot, before: &GroupsSnapshot) -> Vec<MergedGroup> {
    let earlier: HashMap<GroupId, &GroupTotals> = before
        .rows()
        .map(|(_, row)| (row.id, &row.totals))
        .collect();
    let nothing = GroupTotals::nothing();
    let mut places = HashMap::new();
    let mut merged: Vec<MergedGroup> = Vec::new();
    for (process, row) in now.rows() {
        let totals = row.totals.since(earlier.get(&row.id).unwrap_or(&&nothing));
        let place = *places
            .entry((row.kind, &row.name, &row.labels))
            .or_insert(merged.len());
        let (id, pid, process, standing) =
            (row.id, process.pid, process.name.clone(), process.standing);
        let member = Member {
            id,
            pid,
            process,
            standing,
            totals,
        };
        match merged.get_mut(place) {
            Some(group) => group.members.push(member),
            None => merged.push(MergedGroup {
                kind: row.kind,
                name: row.name.clone(),
                labels: row.labels.clone(),
                totals: GroupTotals::nothing(),
                members: vec![member],
            }),
        }
    }
    // Sums all members at once, because a process may have thousands of groups of the same name.
    for group in &mut merged {
        group.totals = GroupTotals::sum(group.members.iter().map(|member| &member.totals));
    }
    merged
}

/// The rows of one answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Table<'a> {
    window: &'static str,
    /// The measured time; since the start, the age of the session.
    interval_ns: u64,
    sort: &'static str,
    order: &'static str,
    /// Groups that match the request.
    total: usize,
    rows: Vec<Row<'a>>,
    /// Groups that some process had no room for.
    left_out: u64,
    missing: &'a [MissingProcess],
}

/// Whether the request asks for recent totals instead of totals since the start.
pub(super) fn wants_lately(query: &Query) -> bool {
    query.get("window") == Some("10s")
}

impl<'a> Table<'a> {
    /// Builds the table of these groups of a snapshot, with their totals over `interval`
    /// nanoseconds.
    pub(super) fn new(
        snapshot: &'a GroupsSnapshot,
        interval_ns: i64,
        merged: &'a [MergedGroup],
        query: &Query,
    ) -> Self {
        let (sort, column) = Column::of(query);
        let is_ascending = match query.get("order") {
            Some("asc") => true,
            Some("desc") => false,
            _ => column.starts_ascending(),
        };
        let mut chosen: Vec<&MergedGroup> = merged
            .iter()
            .filter(|group| is_wanted(group, query))
            .collect();
        let total = chosen.len();
        let most = query.rows("top", ROWS);
        keep_top(&mut chosen, column, is_ascending, most);
        order(&mut chosen, column, is_ascending);
        Self {
            window: if wants_lately(query) { "10s" } else { "start" },
            interval_ns: u64::try_from(interval_ns).unwrap_or(0),
            sort,
            order: if is_ascending { "asc" } else { "desc" },
            total,
            rows: chosen
                .into_iter()
                .take(most)
                .map(|group| row(group, query))
                .collect(),
            left_out: snapshot
                .processes
                .iter()
                .fold(0, |sum: u64, process| sum.saturating_add(process.left_out)),
            missing: &snapshot.missing,
        }
    }
}

fn is_wanted(group: &MergedGroup, query: &Query) -> bool {
    let kind = query.get("kind").unwrap_or_default();
    let part = query.get("find").unwrap_or_default().to_lowercase();
    (kind.is_empty() || kind == group.kind.name())
        && (part.is_empty() || group.name.to_lowercase().contains(&part))
}

/// Keeps the first rows and all rows equal to the last of them, so that names are compared only for
/// these.
fn keep_top(groups: &mut Vec<&MergedGroup>, column: Column, is_ascending: bool, most: usize) {
    let Some(last) = most.checked_sub(1).filter(|last| *last < groups.len()) else {
        return;
    };
    if column.starts_ascending() {
        return;
    }
    // The first row in the order is the greatest.
    let rank = |group: &MergedGroup| {
        if is_ascending {
            u64::MAX - column.number(group)
        } else {
            column.number(group)
        }
    };
    let ranks: Vec<u64> = groups.iter().map(|group| rank(group)).collect();
    let mut sorted = ranks.clone();
    let bound = *sorted
        .select_nth_unstable_by(last, |one, other| other.cmp(one))
        .1;
    let mut ranks = ranks.into_iter();
    groups.retain(|_| ranks.next().is_some_and(|rank| rank >= bound));
}

/// Sorts the groups; equal groups are ordered by name, so that rows do not change places
/// needlessly.
fn order(groups: &mut [&MergedGroup], column: Column, is_ascending: bool) {
    let name = |group: &MergedGroup| (group.name.to_lowercase(), group.kind, group.name.clone());
    match column {
        Column::Name => groups.sort_by_cached_key(|group| name(group)),
        Column::Kind => groups.sort_by_cached_key(|group| (group.kind.name(), name(group))),
        _ if is_ascending => groups.sort_by_cached_key(|group| (column.number(group), name(group))),
        _ => groups.sort_by_cached_key(|group| (Reverse(column.number(group)), name(group))),
    }
    if column.starts_ascending() && !is_ascending {
        groups.reverse();
    }
}

fn row<'a>(group: &'a MergedGroup, query: &Query) -> Row<'a> {
    let key = format!("{:016x}", key(group));
    let is_open = query.all("open").any(|open| open == key);
    let members = || {
        let mut members: Vec<&Member> = group.members.iter().collect();
        members.sort_by_key(|member| Reverse(member.totals.wall_ns));
        members.into_iter().map(MemberRow::of).collect()
    };
    Row {
        key,
        kind: group.kind,
        name: &group.name,
        labels: &group.labels,
        processes: group.members.len(),
        numbers: Numbers::of(&group.totals),
        members: is_open.then(members),
    }
}

/// FNV-1a hash of a group's identity.
fn key(group: &MergedGroup) -> u64 {
    let labels = group
        .labels
        .iter()
        .flat_map(|(key, value)| [key.as_str(), value.as_str()]);
    let texts = [group.kind.name(), group.name.as_str()]
        .into_iter()
        .chain(labels);
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
