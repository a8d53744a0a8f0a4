//! `profileGatheringLog`: the outcome for every process, with times, for people who read the file.
//!
//! Written by both formats of a capture. As in Gecko it is one object under the parent's number,
//! with rows `[time in ms, text, …]`; ours also has the verdict and the entry counts of every
//! process.

use std::io::Write;

use profiler_core::ids::ProcessId;
use profiler_core::session::EntryCounts;
use profiler_core::time::{TimeConverter, Timestamp};
use profiler_gecko::model::MetaSection;
use profiler_json::JsonWriter;

use super::CapturedProcess;
use crate::gather::verdict::Why;
use crate::process_table::ObservedTime;
use crate::push_sums::{DestinationRow, PushSums};

/// The minimum processor time of observed processes for which the profile states how much is in
/// samples.
const SHORTEST_NS: u64 = 1_000_000;
/// What a capture says if the directory of observed programs had no room at some time.
pub(super) const FULL_DIRECTORY: &str = "the directory for the files of observed programs had no \
     room for some time: programs that began then may not be in the profile";

/// Collects the log entries of a capture.
#[derive(Debug)]
pub(crate) struct GatheringLog {
    converter: TimeConverter,
    begin: Timestamp,
    rows: Vec<(Timestamp, String)>,
    pushed: Vec<DestinationRow>,
    observed: Option<ObservedTime>,
}

impl GatheringLog {
    pub(crate) fn new(converter: TimeConverter) -> Self {
        Self {
            converter,
            begin: Timestamp::now(),
            rows: Vec::new(),
            pushed: Vec::new(),
            observed: None,
        }
    }

    /// Adds a warning if the session's clock shows a time before the session's start. The machine
    /// then slept in a way that resets the cycle counter, and times are not reliable.
    pub(crate) fn note_restarted_counter(&mut self) {
        if self.begin < self.converter.start().ticks {
            self.note("the cycle counter was started again: times of this session are wrong");
        }
    }

    /// Notes a text with the current time.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.rows.push((Timestamp::now(), text.into()));
    }

    /// Notes what the pushers of the session have sent, and their losses with the current time.
    pub(crate) fn note_pushes(&mut self, pushes: &PushSums) {
        self.pushed = pushes.read().unwrap_or_default().destinations;
        let losses = self.pushed.iter().filter_map(DestinationRow::losses);
        let losses: Vec<String> = losses.collect();
        losses.into_iter().for_each(|losses| self.note(losses));
    }

    /// Notes the number of programs whose files the session has not read.
    pub(crate) fn note_unread(&mut self, programs: u64) {
        if programs > 0 {
            self.note(format!(
                "{programs} programs are not in this profile: the session has not read their files \
                 in time"
            ));
        }
    }

    /// Notes that the programs of some time could make no files for their samples.
    pub(crate) fn note_full_directory(&mut self, was_full: bool) {
        if was_full {
            self.note(FULL_DIRECTORY);
        }
    }

    /// Notes how much of the processor time of the observed processes is in samples.
    pub(crate) fn note_observed(&mut self, time: Option<ObservedTime>) {
        self.observed = time.filter(|time| time.used_ns >= SHORTEST_NS);
    }

    /// The time of the observed processes as a section of `meta.extra`, which viewers show with the
    /// properties of the profile.
    pub(crate) fn sections(&self) -> Vec<MetaSection> {
        let of_time = |time: ObservedTime| MetaSection {
            label: "Observed processes",
            rows: vec![
                ("Processor time", millis(time.used_ns)),
                ("In samples", percent(time.recorded_ns, time.used_ns)),
                (
                    "In samples with stacks",
                    percent(time.sampled_ns, time.used_ns),
                ),
            ],
        };
        self.observed.map(of_time).into_iter().collect()
    }

    /// Writes the key `profileGatheringLog` and its object.
    pub(crate) fn write<W: Write>(
        &self,
        parent: ProcessId,
        processes: &[CapturedProcess],
        out: &mut JsonWriter<W>,
    ) {
        let ns = |at: Timestamp| Some(self.converter.since_start_ns(at));
        out.key("profileGatheringLog");
        out.begin_object();
        out.key(&parent.to_string());
        out.begin_object();
        out.entry_millis_ns("profileGatheringLogBegin_TSms", ns(self.begin));
        out.key("events");
        out.begin_array();
        for (at, text) in &self.rows {
            out.begin_array();
            out.millis_ns(self.converter.since_start_ns(*at));
            out.string(text);
            out.end_array();
        }
        out.end_array();
        out.key("processes");
        out.begin_array();
        processes
            .iter()
            .for_each(|process| write_process(process, &self.converter, out));
        out.end_array();
        if !self.pushed.is_empty() {
            out.key("pushed");
            out.begin_array();
            self.pushed.iter().for_each(|one| write_pushed(one, out));
            out.end_array();
        }
        if let Some(time) = self.observed {
            write_time(time, out);
        }
        out.entry_millis_ns("profileGatheringLogEnd_TSms", ns(Timestamp::now()));
        out.end_object();
        out.end_object();
    }
}

fn millis(ns: u64) -> String {
    format!("{} ms", ns / 1_000_000)
}

/// A share in percent, rounded down, so 100 % means that nothing is missing.
fn percent(part: u64, whole: u64) -> String {
    format!("{} %", part.saturating_mul(100) / whole.max(1))
}

fn write_process<W: Write>(
    process: &CapturedProcess,
    converter: &TimeConverter,
    out: &mut JsonWriter<W>,
) {
    let ns = |at: Option<Timestamp>| at.map(|at| converter.since_start_ns(at));
    out.begin_object();
    out.entry_str("name", &process.name);
    out.entry_u64("pid", u64::from(process.pid.get()));
    if let Some(parent) = process.parent {
        out.entry_u64("parentPid", u64::from(parent.get()));
    }
    out.entry_str("verdict", &process.verdict.to_string());
    out.entry_bool("present", process.verdict.is_present());
    if let Some(Why::RecordedElsewhere { session }) = process.verdict.why() {
        out.entry_u64("recordedByPid", u64::from(*session));
    }
    out.entry_millis_ns("began_TSms", ns(process.lived.began));
    out.entry_millis_ns("ended_TSms", ns(process.lived.ended));
    out.entry_u64("threads", u64::from(process.threads));
    out.entry_millis_ns("writing_ms", i64::try_from(process.writing.as_nanos()).ok());
    write_counts(&process.counts, out);
    if let Some(time) = process.time {
        write_time(time, out);
    }
    if let Some(series) = &process.series {
        out.entry_object("series", |out| {
            out.entry_str("number", &series.number);
            out.entry_u64("earlier", series.earlier);
            out.entry_u64("missed", series.missed);
            out.entry_u64("newlyMissed", series.newly_missed);
        });
    }
    out.end_object();
}

fn write_pushed<W: Write>(row: &DestinationRow, out: &mut JsonWriter<W>) {
    let sum = &row.sum;
    out.begin_object();
    out.entry_str("address", row.name.as_str());
    let outcomes = sum.batches.named().into_iter().zip(sum.entries.named());
    for ((name, batches), (_, entries)) in outcomes {
        out.key(name);
        out.begin_object();
        out.entry_u64("batches", batches);
        out.entry_u64("entries", entries);
        out.end_object();
    }
    let waiting = row.waiting_batches.saturating_add(sum.left_batches);
    out.entry_u64("waitingBatches", waiting);
    out.entry_u64("missedEntries", sum.missed_entries);
    out.entry_u64("failedCaptures", sum.failed_captures);
    out.end_object();
}

/// Writes the key `observed`: how much processor time was used, and how much of it is in samples.
fn write_time<W: Write>(time: ObservedTime, out: &mut JsonWriter<W>) {
    out.entry_object("observed", |out| {
        out.entry_u64("usedUs", time.used_ns / 1000);
        out.entry_u64("recordedUs", time.recorded_ns / 1000);
        out.entry_u64("sampledUs", time.sampled_ns / 1000);
    });
}

fn write_counts<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.entry_u64("recorded", counts.recorded());
    out.entry_u64("delivered", counts.delivered);
    out.entry_u64("outside", counts.outside);
    out.entry_u64("evicted", counts.evicted);
    out.entry_u64("unfinished", counts.unfinished);
    out.key("dropped");
    out.begin_object();
    counts
        .dropped
        .iter()
        .for_each(|(reason, count)| out.entry_u64(reason.name(), count));
    out.end_object();
}

#[cfg(test)]
mod tests {
    use profiler_core::time::{Anchor, ClockKind, MonotonicNs};

    use super::*;

    #[test]
    fn the_share_of_the_time_in_samples_is_a_property_of_the_profile() {
        let start = Anchor::take();
        let mut log = GatheringLog::new(TimeConverter::new(ClockKind::Monotonic, start, start));
        log.note_observed(Some(ObservedTime {
            used_ns: SHORTEST_NS - 1,
            ..ObservedTime::default()
        }));
        assert_eq!(log.sections(), [], "too short for a statement");
        log.note_observed(Some(ObservedTime {
            used_ns: 1_000_000_000,
            recorded_ns: 989_999_999,
            sampled_ns: 700_000_000,
        }));
        let [section] = &log.sections()[..] else {
            panic!("one section")
        };
        let values = section.rows.iter().map(|(_, value)| value.as_str());
        assert_eq!(values.collect::<Vec<_>>(), ["1000 ms", "98 %", "70 %"]);
    }

    #[test]
    fn a_reset_cycle_counter_is_logged() {
        let started_at = |ticks: u64| {
            let start = Anchor {
                ticks: Timestamp::from_raw(ticks),
                monotonic: MonotonicNs(5),
            };
            let mut log = GatheringLog::new(TimeConverter::new(
                ClockKind::CycleCounter,
                start,
                Anchor::take(),
            ));
            log.note_restarted_counter();
            log.rows.len()
        };
        assert_eq!((started_at(1), started_at(u64::MAX)), (0, 1));
    }
}
