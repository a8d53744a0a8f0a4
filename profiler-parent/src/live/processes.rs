//! The table of processes: memory, usage, recorded and lost entries, and state.
//!
//! Updated by [`super::snapshot_cache`]. Reading the entry counts of a pool costs more than
//! everything else together. With many processes, a snapshot therefore reads only the pools with
//! the oldest counts; rates are over the time between two reads. Invariant: no request is sent to a
//! process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use profiler_core::ids::PoolId;
use profiler_core::internal::reader::{CounterInfo, PoolReader};
use profiler_core::session::EntryCounts;
use profiler_http::Query;
use profiler_sys::OwnFile;
use serde::Serialize;

use crate::groups::{GroupsSnapshot, ProcessStanding};
use crate::process_table::{
    ProcessForLivePage, ProcessReport, ProcessState, ProcessTable, Remains,
};
use crate::sys::{self, Usage};

/// Pools whose entry counts are read for one snapshot.
const COUNTS_AT_ONCE: usize = 16;
/// Processes whose usage is requested from the system for one snapshot.
const USAGES_AT_ONCE: usize = 50;

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LiveProcessRow {
    /// Identifies the process uniquely.
    pub(super) key: String,
    pub(super) pid: u32,
    pub(super) name: String,
    /// What the process is doing, or how it ended.
    pub(super) state: String,
    /// Whether the process is still running.
    pub(super) runs: bool,
    /// The bytes that its pool may occupy.
    pub(super) allowance: u64,
    /// The bytes that its pool occupies.
    pub(super) held_bytes: u64,
    /// Memory that it was asked to release and has not released.
    pub(super) owed_bytes: u64,
    /// Memory that it took beyond its allowance.
    pub(super) excess_bytes: u64,
    /// Resident memory of the whole process, if known.
    pub(super) resident_bytes: Option<u64>,
    /// Processor time in percent of one processor.
    pub(super) cpu_pct: Option<f64>,
    /// The part of its processor time so far that is in samples, in percent, if it is observed.
    pub(super) in_samples_pct: Option<f64>,
    /// Recorded entries, and their number per second.
    pub(super) recorded: u64,
    pub(super) rate: Option<f64>,
    /// Entries that were evicted for newer ones.
    pub(super) evicted: u64,
    /// Entries that were never written, with the reasons.
    pub(super) dropped: u64,
    pub(super) dropped_by: BTreeMap<&'static str, u64>,
    /// The number of its groups.
    pub(super) groups: usize,
}

/// Data of a process from earlier snapshots.
#[derive(Debug, Default)]
struct KnownProcess {
    usage: Option<(i64, Usage)>,
    cpu_pct: Option<f64>,
    counts: Option<(i64, EntryCounts)>,
    rate: Option<f64>,
    counters: Vec<CounterInfo>,
}

impl KnownProcess {
    fn note_usage(&mut self, at: i64, usage: Usage) {
        if let Some((before, earlier)) = self.usage {
            let used = usage.cpu_ns.saturating_sub(earlier.cpu_ns);
            self.cpu_pct = per_second(used, before, at).map(|ns| ns / 1e7);
        }
        self.usage = Some((at, usage));
    }

    fn note_counts(&mut self, at: i64, counts: EntryCounts) {
        if let Some((before, earlier)) = self.counts {
            let more = counts.recorded().saturating_sub(earlier.recorded());
            self.rate = per_second(more, before, at);
        }
        self.counts = Some((at, counts));
    }

    /// Clears the rates of an ended process.
    fn clear_rates(&mut self) {
        (self.usage, self.cpu_pct, self.rate) = (None, None, None);
    }
}

/// The number per second of `count` events between two times; `None` if no time has passed.
#[allow(clippy::cast_precision_loss)] // shown with two digits
fn per_second(count: u64, from: i64, to: i64) -> Option<f64> {
    let ns = to.saturating_sub(from);
    (ns > 0).then(|| count as f64 * 1e9 / ns as f64)
}

/// What a process is doing, or how it has ended, as text.
fn state_of(process: &ProcessForLivePage, standing: Option<ProcessStanding>) -> String {
    if let Some(why) = &process.report.unprofiled {
        return format!("unprofiled: {why}");
    }
    match (&process.report.state, standing) {
        (ProcessState::Exited(_) | ProcessState::Executed, _) => {
            process.end.clone().unwrap_or_else(|| "ended".to_owned())
        }
        (_, Some(ProcessStanding::Frozen)) => "frozen".to_owned(),
        (ProcessState::Parent, _) => "parent".to_owned(),
        (ProcessState::Starting, _) => "starting".to_owned(),
        (ProcessState::Connected, _) => "recording".to_owned(),
        (ProcessState::Disconnected(why), _) => format!("disconnected: {why}"),
    }
}

/// Data of all processes from earlier snapshots.
#[derive(Debug, Default)]
pub(super) struct ProcessHistory(HashMap<PoolId, KnownProcess>);

impl ProcessHistory {
    /// Reads all processes. `groups` is the snapshot that was just taken.
    pub(super) fn update(
        &mut self,
        table: &ProcessTable,
        groups: &GroupsSnapshot,
    ) -> Vec<LiveProcessRow> {
        let listed = table.for_live_page();
        let mut known = std::mem::take(&mut self.0);
        let keep = |one: &ProcessForLivePage| (one.key, known.remove(&one.key).unwrap_or_default());
        self.0 = listed.iter().map(keep).collect();
        self.note_usages(groups.at_ns, &listed);
        self.note_counts(groups.at_ns, &listed);
        let of_groups: HashMap<PoolId, (ProcessStanding, usize)> = groups
            .processes
            .iter()
            .map(|one| (one.pool, (one.standing, one.groups.len())))
            .collect();
        listed
            .iter()
            .map(|one| self.row(one, of_groups.get(&one.key).copied()))
            .collect()
    }

    /// The counters of all processes, as last read.
    pub(super) fn counters(&self) -> impl Iterator<Item = &CounterInfo> {
        self.0.values().flat_map(|known| &known.counters)
    }

    fn note_usages(&mut self, at: i64, listed: &[ProcessForLivePage]) {
        let running = listed.iter().filter(|one| one.runs());
        let when = |known: &KnownProcess| known.usage.map(|(at, _)| at);
        for one in self.longest_ago(running, when, USAGES_AT_ONCE) {
            if let (Some(known), Some(usage)) =
                (self.0.get_mut(&one.key), sys::usage(one.report.pid))
            {
                known.note_usage(at, usage);
            }
        }
    }

    fn note_counts(&mut self, at: i64, listed: &[ProcessForLivePage]) {
        let pools = listed.iter().filter(|one| one.pool().is_some());
        for one in self.longest_ago(
            pools,
            |known| known.counts.map(|(at, _)| at),
            COUNTS_AT_ONCE,
        ) {
            let read = |pool: &Arc<OwnFile>| PoolReader::open(&**pool)?.snapshot();
            if let (Some(known), Some(Ok(snapshot))) =
                (self.0.get_mut(&one.key), one.pool().map(read))
            {
                known.note_counts(at, snapshot.counts());
                known.counters = snapshot
                    .counters
                    .into_iter()
                    .filter(is_the_programs)
                    .collect();
            }
        }
    }

    /// Returns at most `most` of the listed processes: those whose last reading is missing or
    /// oldest.
    fn longest_ago<'a>(
        &self,
        listed: impl Iterator<Item = &'a ProcessForLivePage>,
        when: impl Fn(&KnownProcess) -> Option<i64>,
        most: usize,
    ) -> Vec<&'a ProcessForLivePage> {
        let mut listed: Vec<&ProcessForLivePage> = listed.collect();
        if listed.len() > most {
            listed.sort_by_cached_key(|one| self.0.get(&one.key).and_then(&when));
            listed.truncate(most);
        }
        listed
    }

    fn row(
        &mut self,
        one: &ProcessForLivePage,
        groups: Option<(ProcessStanding, usize)>,
    ) -> LiveProcessRow {
        let known = self.0.entry(one.key).or_default();
        if !one.runs() {
            known.clear_rates();
        }
        let counts = match &one.remains {
            Remains::Expired(counts) => *counts,
            _ => known.counts.map(|(_, counts)| counts).unwrap_or_default(),
        };
        let ProcessReport {
            name,
            pid,
            allowance,
            true_bytes,
            owed_bytes,
            excess_bytes,
            ..
        } = &one.report;
        LiveProcessRow {
            key: format!("{:032x}", one.key.get()),
            pid: pid.get(),
            name: name.clone(),
            state: state_of(one, groups.map(|(standing, _)| standing)),
            runs: one.runs(),
            allowance: allowance.get(),
            held_bytes: *true_bytes,
            owed_bytes: *owed_bytes,
            excess_bytes: *excess_bytes,
            resident_bytes: known.usage.map(|(_, usage)| usage.resident_bytes),
            cpu_pct: known.cpu_pct,
            in_samples_pct: one.time.and_then(|time| time.recorded_pct()),
            recorded: counts.recorded(),
            rate: known.rate,
            evicted: counts.evicted,
            dropped: counts.dropped.total(),
            dropped_by: counts
                .dropped
                .iter()
                .map(|(reason, count)| (reason.name(), count))
                .collect(),
            groups: groups.map_or(0, |(_, groups)| groups),
        }
    }
}

/// Whether the counter belongs to the program. The profiler's own counters of groups, processor
/// time and memory are shown elsewhere in the page.
fn is_the_programs(counter: &CounterInfo) -> bool {
    let definition = &counter.definition;
    let is_own = matches!(definition.category.as_str(), "Group" | "CPU");
    !is_own && definition.name != "Resident memory"
}

/// The rows of one answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ProcessListing<'a> {
    total: usize,
    sort: &'a str,
    order: &'static str,
    rows: Vec<&'a LiveProcessRow>,
}

impl<'a> ProcessListing<'a> {
    pub(super) fn new(all: &'a [LiveProcessRow], query: &'a Query) -> Self {
        let sort = query.get("psort").unwrap_or("order");
        let mut rows: Vec<&LiveProcessRow> = all.iter().collect();
        match sort {
            "name" => rows.sort_by_cached_key(|row| row.name.to_lowercase()),
            "state" => rows.sort_by(|a, b| a.state.cmp(&b.state)),
            _ => rows.sort_by_key(|row| number(row, sort)),
        }
        let starts_ascending = matches!(sort, "name" | "state" | "order" | "pid");
        let is_ascending = query
            .get("porder")
            .map_or(starts_ascending, |order| order == "asc");
        if !is_ascending {
            rows.reverse();
        }
        rows.truncate(query.rows("ptop", usize::MAX));
        Self {
            total: all.len(),
            sort,
            order: if is_ascending { "asc" } else { "desc" },
            rows,
        }
    }
}

/// The sort key of a column; the same for all rows if the column is unknown.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // only compared
fn number(row: &LiveProcessRow, column: &str) -> u64 {
    match column {
        "pid" => u64::from(row.pid),
        "memory" => row.held_bytes,
        "resident" => row.resident_bytes.unwrap_or(0),
        "cpu" => row.cpu_pct.map_or(0, |share| (share * 100.0) as u64),
        "rate" => row.rate.unwrap_or(0.0) as u64,
        "lost" => row.evicted.saturating_add(row.dropped),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, pid: u32, held_bytes: u64) -> LiveProcessRow {
        LiveProcessRow {
            key: name.to_owned(),
            pid,
            name: name.to_owned(),
            state: "recording".to_owned(),
            runs: true,
            allowance: 100,
            held_bytes,
            owed_bytes: 0,
            excess_bytes: 0,
            resident_bytes: None,
            cpu_pct: None,
            in_samples_pct: None,
            recorded: 0,
            rate: None,
            evicted: 0,
            dropped: 0,
            dropped_by: BTreeMap::new(),
            groups: 0,
        }
    }

    #[test]
    fn l1_processes_are_sorted_by_any_column_in_either_order_and_cut_to_the_top() {
        let all = [row("b", 3, 20), row("a", 9, 10), row("c", 5, 30)];
        for (query, expected) in [
            ("", ["b", "a", "c"]),
            ("psort=name", ["a", "b", "c"]),
            ("psort=pid", ["b", "c", "a"]),
            ("psort=pid&porder=desc", ["a", "c", "b"]),
            ("psort=memory", ["c", "b", "a"]),
            ("psort=memory&porder=asc", ["a", "b", "c"]),
        ] {
            let query = Query::parse(query);
            let table = ProcessListing::new(&all, &query);
            let names: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, expected, "{query:?}");
        }
        let query = Query::parse("psort=memory&ptop=1");
        let table = ProcessListing::new(&all, &query);
        assert_eq!(
            (table.rows.len(), table.total, table.rows[0].name.as_str()),
            (1, 3, "c")
        );
    }

    #[test]
    fn rates_are_over_the_time_between_two_readings() {
        let mut known = KnownProcess::default();
        let usage = |cpu_ns| Usage {
            cpu_ns,
            resident_bytes: 7,
        };
        known.note_usage(1_000_000_000, usage(5_000_000));
        assert_eq!(known.cpu_pct, None, "one reading gives no rate");
        known.note_usage(3_000_000_000, usage(505_000_000));
        assert_eq!(known.cpu_pct, Some(25.0));
        let counts = |evicted| EntryCounts {
            evicted,
            ..EntryCounts::default()
        };
        known.note_counts(0, counts(10));
        known.note_counts(2_000_000_000, counts(110));
        assert_eq!(known.rate, Some(50.0));
    }
}
