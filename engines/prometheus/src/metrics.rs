//! The numbers of one reading, and their text.
//!
//! Plain values: equal numbers give equal text.

use std::sync::Arc;

use profiler_core::internal::durations::{BUCKETS, bucket_bound_us};
use profiler_core::session::DropReason;

use super::exposition::{Exposition, MetricFamily, SampleLabels, SampleValue};
use super::families;
use super::pushed::write_pushed;
use super::text_format::TextFormat;
use profiler_parent::internal::session_metrics::{
    Budget, GroupSum, MetricsReading, OTHER, ProcessActivity, ProcessEnd, ProcessMetricsRow,
    ScrapeCost,
};

/// The metrics of a session at one time, from
/// [`session_metrics`](crate::session_metrics). `docs/prometheus.md` lists them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) reading: Arc<MetricsReading>,
    pub(crate) cost: ScrapeCost,
}

impl Metrics {
    /// The text of the metrics. [`TextFormat::content_type`] is its type.
    pub fn text(&self, format: TextFormat) -> String {
        let mut out = Exposition::new(format);
        let reading = ReadingText(&self.reading);
        reading.write_session(&mut out);
        reading.write_processes(&mut out);
        reading.write_entries(&mut out);
        reading.write_groups(&mut out);
        if let Some(pushed) = &self.reading.pushed {
            write_pushed(pushed, &mut out);
        }
        write_cost(&self.cost, &mut out);
        out.finish()
    }
}

/// Writes one reading.
struct ReadingText<'r>(&'r MetricsReading);

impl<'r> ReadingText<'r> {
    fn write_session(&self, out: &mut Exposition) {
        let version = SampleLabels::of([("version", env!("CARGO_PKG_VERSION"))]);
        out.begin(&families::SESSION);
        out.sample(&families::SESSION, &version, SampleValue::Whole(1));
        let start = SampleValue::Ns(self.0.session_start_unix_ns);
        out.single(&families::SESSION_START, start);
        let Budget {
            limit,
            charged,
            peak,
        } = self.0.budget;
        let used = self.0.processes.iter().map(|row| row.present.memory.held);
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
    fn by_process<N>(
        &self,
        out: &mut Exposition,
        family: MetricFamily,
        numbers: impl Fn(&'r ProcessMetricsRow) -> N,
    ) where
        N: IntoIterator<Item = (Option<(&'static str, &'static str)>, u64)>,
    {
        out.begin(&family);
        for row in &self.0.processes {
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
        let in_other = SampleValue::Whole(self.0.groups_in_other);
        out.single(&families::GROUPS_IN_OTHER, in_other);
        out.single(&families::UNREAD, SampleValue::Whole(self.0.unread));
    }

    fn group_rows(&self) -> impl Iterator<Item = (SampleLabels, &'r GroupSum)> + use<'r> {
        let labels = |process: &str, kind: &str, group: &str| {
            SampleLabels::of([("process", process), ("kind", kind), ("group", group)])
        };
        let own = self
            .0
            .groups
            .iter()
            .map(move |(key, sum)| (labels(&key.process, key.kind.name(), &key.name), sum));
        let other = self.0.other_groups.iter();
        own.chain(other.map(move |sum| (labels(OTHER, OTHER, OTHER), sum)))
    }
}

/// The runs up to the bound of each bucket.
fn buckets(sum: &GroupSum) -> impl Iterator<Item = (SampleValue, u64)> {
    let bounds = (0..).map(bucket_bound_us).take(BUCKETS);
    let bounds = bounds.map(|us| SampleValue::Ns(us.saturating_mul(1000)));
    bounds.zip(sum.within)
}

fn write_cost(cost: &ScrapeCost, out: &mut Exposition) {
    out.single(&families::SCRAPES, SampleValue::Whole(cost.scrapes));
    out.single(&families::READINGS, SampleValue::Whole(cost.readings));
    out.single(&families::SCRAPE_TIME, SampleValue::Ns(cost.busy_ns));
}
