//! The numbers of one reading, and their text.
//!
//! Made by [`super::reader`]. Plain values: equal numbers give equal text.

use std::sync::Arc;

use profiler_core::internal::durations::{BUCKETS, bucket_bound_us};
use profiler_core::internal::entry_counts::DropReason;

use super::exposition::{Exposition, MetricFamily, SampleLabels, SampleValue};
use super::families;
use super::text_format::TextFormat;
use crate::process_table::session_sums::{GroupKey, GroupSum, OTHER, ProcessEnd, ProcessSum};
use crate::process_table::{PoolMemory, ProcessActivity};
use crate::push_sums::PushReading;

/// The metrics of a session at one time, from
/// [`Session::metrics`](crate::Session::metrics). `docs/prometheus.md` lists them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) reading: Arc<MetricsReading>,
    pub(super) cost: ScrapeCost,
}

/// What readings have cost since the session's start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScrapeCost {
    pub(super) scrapes: u64,
    pub(super) readings: u64,
    pub(super) busy_ns: u64,
}

/// The numbers of one reading of all pools.
#[derive(Clone, Debug, Default)]
pub(super) struct MetricsReading {
    pub(super) session_start_unix_ns: u64,
    pub(super) budget: Budget,
    /// One row for each name; the last one may be that of further names.
    pub(super) processes: Vec<ProcessMetricsRow>,
    pub(super) groups: Vec<(GroupKey, GroupSum)>,
    /// The sum of further groups.
    pub(super) other_groups: Option<GroupSum>,
    pub(super) groups_in_other: u64,
    pub(super) unread: u64,
    /// What pushers have done, if there has been one.
    pub(super) pushed: Option<PushReading>,
}

/// The memory of all pools together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Budget {
    pub(super) limit: u64,
    pub(super) charged: u64,
    pub(super) peak: u64,
}

/// The processes of one name.
#[derive(Clone, Debug)]
pub(super) struct ProcessMetricsRow {
    pub(super) name: Arc<str>,
    pub(super) sum: ProcessSum,
    pub(super) present: PresentProcesses,
}

/// What the processes of one name are doing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PresentProcesses {
    /// Their number by activity, in the order of [`ProcessActivity::ALL`].
    pub(super) by_activity: [u64; ProcessActivity::ALL.len()],
    pub(super) memory: PoolMemory,
    pub(super) left_out: u64,
}

impl Metrics {
    /// The text of the metrics. [`TextFormat::content_type`] is its type.
    pub fn text(&self, format: TextFormat) -> String {
        let mut out = Exposition::new(format);
        self.reading.write_session(&mut out);
        self.reading.write_processes(&mut out);
        self.reading.write_entries(&mut out);
        self.reading.write_groups(&mut out);
        if let Some(pushed) = &self.reading.pushed {
            pushed.write(&mut out);
        }
        self.cost.write(&mut out);
        out.finish()
    }
}

impl MetricsReading {
    fn write_session(&self, out: &mut Exposition) {
        let version = SampleLabels::of([("version", env!("CARGO_PKG_VERSION"))]);
        out.begin(&families::SESSION);
        out.sample(&families::SESSION, &version, SampleValue::Whole(1));
        let start = SampleValue::Ns(self.session_start_unix_ns);
        out.single(&families::SESSION_START, start);
        let Budget {
            limit,
            charged,
            peak,
        } = self.budget;
        let used = self.processes.iter().map(|row| row.present.memory.held);
        let used = used.fold(0, u64::saturating_add);
        for (family, bytes) in [
            (families::LIMIT, limit),
            (families::USED, used),
            (families::CHARGED, charged),
            (families::PEAK, peak),
        ] {
            out.single(&family, SampleValue::Whole(bytes));
        }
    }

    fn write_processes(&self, out: &mut Exposition) {
        self.by_process(out, families::PROCESSES, |row| {
            let activities = ProcessActivity::ALL
                .into_iter()
                .zip(row.present.by_activity);
            activities.map(|((_, name), count)| (Some(("state", name)), count))
        });
        self.one_by_process(out, families::STARTS, |row| row.sum.starts);
        self.by_process(out, families::ENDS, |row| {
            let ends = ProcessEnd::ALL.into_iter().zip(row.sum.ends);
            ends.map(|((_, name), count)| (Some(("how", name)), count))
        });
        self.one_by_process(out, families::POOL, |row| row.present.memory.held);
        self.one_by_process(out, families::ALLOWANCE, |row| row.present.memory.allowance);
        self.one_by_process(out, families::OWED, |row| row.present.memory.owed);
        self.one_by_process(out, families::EXCESS, |row| row.present.memory.excess);
    }

    fn write_entries(&self, out: &mut Exposition) {
        self.one_by_process(out, families::RECORDED, |row| row.sum.recorded);
        self.by_process(out, families::LOST, |row| {
            let kept = [
                ("evicted", row.sum.evicted),
                ("unfinished", row.sum.unfinished),
            ];
            let dropped = DropReason::ALL.map(DropReason::name);
            let dropped = dropped.into_iter().zip(row.sum.dropped);
            let lost = kept.into_iter().chain(dropped);
            lost.map(|(reason, count)| (Some(("reason", reason)), count))
        });
        self.one_by_process(out, families::LEFT_OUT, |row| row.present.left_out);
    }

    /// Writes a family with one number for each name of processes.
    fn one_by_process(
        &self,
        out: &mut Exposition,
        family: MetricFamily,
        number: impl Fn(&ProcessMetricsRow) -> u64,
    ) {
        self.by_process(out, family, |row| [(None, number(row))]);
    }

    /// Writes a family with several numbers for each name of processes, each with a label.
    fn by_process<'a, N>(
        &'a self,
        out: &mut Exposition,
        family: MetricFamily,
        numbers: impl Fn(&'a ProcessMetricsRow) -> N,
    ) where
        N: IntoIterator<Item = (Option<(&'static str, &'static str)>, u64)>,
    {
        out.begin(&family);
        for row in &self.processes {
            let process = SampleLabels::of([("process", &*row.name)]);
            for (label, number) in numbers(row) {
                let labelled = label.map(|(name, value)| process.with(name, value));
                let labels = labelled.as_ref().unwrap_or(&process);
                out.sample(&family, labels, SampleValue::Whole(number));
            }
        }
    }

    fn write_groups(&self, out: &mut Exposition) {
        let rows: Vec<(SampleLabels, &GroupSum)> = self.group_rows().collect();
        let mut each = |family: MetricFamily, number: fn(&GroupSum) -> SampleValue| {
            out.begin(&family);
            for (labels, sum) in &rows {
                out.sample(&family, labels, number(sum));
            }
        };
        each(families::ENTRIES, |sum| SampleValue::Whole(sum.entries));
        each(families::CPU, |sum| SampleValue::Ns(sum.cpu_ns));
        each(families::MEASURED, |sum| SampleValue::Ns(sum.measured_ns));
        each(families::BLOCKING, |sum| SampleValue::Ns(sum.blocking_ns));
        out.begin(&families::RUNS);
        for (labels, sum) in &rows {
            let counted = (sum.runs, SampleValue::Ns(sum.wall_ns));
            out.histogram(&families::RUNS, labels, buckets(sum), counted);
        }
        let in_other = SampleValue::Whole(self.groups_in_other);
        out.single(&families::GROUPS_IN_OTHER, in_other);
        out.single(&families::UNREAD, SampleValue::Whole(self.unread));
    }

    fn group_rows(&self) -> impl Iterator<Item = (SampleLabels, &GroupSum)> {
        let labels = |process: &str, kind: &str, group: &str| {
            SampleLabels::of([("process", process), ("kind", kind), ("group", group)])
        };
        let own = self
            .groups
            .iter()
            .map(move |(key, sum)| (labels(&key.process, key.kind.name(), &key.name), sum));
        let other = self.other_groups.iter();
        own.chain(other.map(move |sum| (labels(OTHER, OTHER, OTHER), sum)))
    }
}

/// The runs up to the bound of each bucket.
fn buckets(sum: &GroupSum) -> impl Iterator<Item = (SampleValue, u64)> {
    let bounds = (0..).map(bucket_bound_us).take(BUCKETS);
    let bounds = bounds.map(|us| SampleValue::Ns(us.saturating_mul(1000)));
    bounds.zip(sum.within)
}

impl ScrapeCost {
    fn write(&self, out: &mut Exposition) {
        out.single(&families::SCRAPES, SampleValue::Whole(self.scrapes));
        out.single(&families::READINGS, SampleValue::Whole(self.readings));
        out.single(&families::SCRAPE_TIME, SampleValue::Ns(self.busy_ns));
    }
}
