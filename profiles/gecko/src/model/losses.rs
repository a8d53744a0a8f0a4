//! The lost entries and the reasons: the exact entry counts of every thread.
//!
//! Used by both formats. `profilingLog` has all counts, under the process's number. A thread that
//! lost entries also gets a marker over the time of the lost entries, because viewers do not show
//! logs.

use std::io::Write;

use super::marker_rows::MarkerTimes;
use super::process::ProcessModel;
use profiler_core::internal::reader::ThreadInfo;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::session::{DropReason, EntryCounts};
use profiler_core::time::Timestamp;
use profiler_json::JsonWriter;

const TYPE_NAME: &str = "ProfilerLosses";

/// A marker that the profiler adds: an interval in the default category.
pub trait OwnMarker {
    /// Its name.
    fn name(&self) -> &str;

    /// The time that it covers.
    fn times(&self, process: &ProcessModel<'_>) -> MarkerTimes;

    /// Writes its payload as one object.
    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>);
}

/// How viewers show the marker of lost entries.
pub(super) fn schema() -> MarkerSchema {
    let schema = MarkerSchema::in_chart_and_table(TYPE_NAME)
        .all_labels("{marker.data.evicted} evicted, {marker.data.dropped} dropped")
        .key_label_format("evicted", "Overwritten by newer entries", Format::Integer)
        .key_label_format("dropped", "Not recorded", Format::Integer)
        .key_label_format("unfinished", "Being written at the end", Format::Integer);
    DropReason::ALL.into_iter().fold(schema, |schema, reason| {
        let label = format!("Not recorded: {}", reason.name());
        schema.key_label_format(reason.name(), label, Format::Integer)
    })
}

/// What a profile contains of the entries that a thread recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Entries in the profile.
    pub delivered: u64,
    /// Entries in the pool that are outside of the profile's range.
    pub outside: u64,
}

/// The entry counts of a thread.
pub fn entry_counts(thread: &ThreadInfo, delivery: Delivery) -> EntryCounts {
    let Delivery { delivered, outside } = delivery;
    EntryCounts {
        delivered,
        outside,
        evicted: thread
            .committed()
            .saturating_sub(delivered)
            .saturating_sub(outside),
        dropped: thread.dropped,
        unfinished: u64::from(thread.is_unfinished()),
    }
}

/// The entries that a thread lost.
#[derive(Clone, Copy, Debug)]
pub struct LostEntries {
    counts: EntryCounts,
    registered: Timestamp,
    /// When the first remaining entry was recorded, if nothing is missing after it.
    until: Option<Timestamp>,
}

impl LostEntries {
    /// The losses of `thread`; `None` if it lost nothing, or only entries from before the range of
    /// `process`'s profile.
    pub fn of(thread: &ThreadInfo, delivery: Delivery, process: &ProcessModel<'_>) -> Option<Self> {
        let counts = entry_counts(thread, delivery);
        let first_left = thread
            .chunks
            .first()
            .filter(|_| counts.dropped.total() == 0);
        let until = first_left.map(|chunk| chunk.start);
        let lost = Self {
            counts,
            registered: thread.registered,
            until,
        };
        let since = process.spec.since;
        let is_older = until.is_some_and(|until| since.is_some_and(|since| until <= since));
        (counts.lost() > 0 && !is_older).then_some(lost)
    }
}

impl OwnMarker for LostEntries {
    fn name(&self) -> &str {
        "Entries lost"
    }

    /// From the time when the thread could first record to its first remaining entry, or to the
    /// capture.
    fn times(&self, process: &ProcessModel<'_>) -> MarkerTimes {
        let start = process.ns(self.registered.max(process.snapshot.header.recording_start));
        let end = self
            .until
            .map_or_else(|| process.capture_ns(), |at| process.ns(at));
        process.interval_in_range(start, end)
    }

    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("type", TYPE_NAME);
        write_losses(&self.counts, out);
        out.end_object();
    }
}

/// Writes the log of a process under the key `pid`: per thread, of threads that have ended, and in
/// total; `deliveries` has what the profile contains of each thread. Returns the total.
pub fn write_log<W: Write>(
    process: &ProcessModel<'_>,
    pid: &str,
    deliveries: &[Delivery],
    notices: &[String],
    out: &mut JsonWriter<W>,
) -> EntryCounts {
    let ended = process.snapshot.gone;
    let mut total = ended;
    out.entry_object(pid, |out| {
        out.entry_millis_ns("profilingLogBegin_TSms", Some(process.recording_start_ns()));
        out.entry_millis_ns("profilingLogEnd_TSms", Some(process.capture_ns()));
        let all = deliveries.iter().copied();
        let deliveries = all.chain(std::iter::repeat(Delivery::default()));
        out.entry_list(
            "threads",
            process.snapshot.threads.iter().zip(deliveries),
            |(thread, delivery), out| {
                let counts = entry_counts(thread, delivery);
                total += counts;
                out.begin_object();
                out.entry_str("name", &thread.name);
                out.entry_u64("tid", thread.tid.get());
                write_counts(&counts, out);
                out.end_object();
            },
        );
        out.entry_object("endedThreads", |out| write_counts(&ended, out));
        out.entry_object("total", |out| write_counts(&total, out));
        if !notices.is_empty() {
            out.entry_list("notices", notices, |notice, out| out.string(notice));
        }
    });
    total
}

fn write_counts<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.entry_u64("recorded", counts.recorded());
    out.entry_u64("delivered", counts.delivered);
    out.entry_u64("outside", counts.outside);
    write_losses(counts, out);
}

/// Writes the losses: the sum of all drops and, separately, every reason that occurred.
fn write_losses<W: Write>(counts: &EntryCounts, out: &mut JsonWriter<W>) {
    out.entry_u64("evicted", counts.evicted);
    out.entry_u64("dropped", counts.dropped.total());
    out.entry_u64("unfinished", counts.unfinished);
    counts
        .dropped
        .iter()
        .for_each(|(reason, count)| out.entry_u64(reason.name(), count));
}
