//! The threads of a profile in the form that formats write: cut into slices of time.
//!
//! Called by every format. Invariant: besides the data of [`ProfileReader`], one thread at a time
//! is in memory.

use std::path::Path;

use super::slices::{Cut, Slice};
use super::{ExportError, ExportOptions, FleetLabels, TimeKind};
use profiler_files::WorkListener;
use profiler_reader as reading;
use profiler_reader::{
    CounterSeries, PartId, Pauses, ProfileReader, RawMarkers, Survey, Tables, ThreadSink, Wanted,
    bounded_ns,
};

/// The input of a format: one thread.
#[derive(Debug)]
pub(super) struct Thread<'t> {
    /// The object that contains it.
    pub(super) part: PartId,
    pub(super) process: &'t str,
    /// As in the profile: a number, or a number with a suffix such as `12.1`.
    pub(super) pid: &'t str,
    pub name: &'t str,
    pub(super) tid: u64,
    pub(super) is_main: bool,
    pub(super) tables: &'t Tables,
    /// Whether the tables are its own, and not those of all threads.
    pub(super) has_own_tables: bool,
    pub(super) slices: &'t [Slice],
    pub(super) markers: &'t RawMarkers,
    /// The table of the names and texts of markers.
    pub texts: &'t [String],
    /// Nanoseconds to add to the times of markers.
    pub(super) shift_ns: i64,
}

/// A receiver of threads.
pub(super) trait Sink {
    /// Whether it needs markers.
    const WITH_MARKERS: bool = false;
    /// Whether it needs the values of counters over time.
    const WITH_COUNTERS: bool = false;
    /// Writes a thread.
    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError>;
    /// Writes a counter, before or after the threads of its process. `shift_ns` are the nanoseconds
    /// to add to its times.
    fn counter(
        &mut self,
        _counter: &CounterSeries,
        _shift_ns: i64,
        _survey: &Survey,
    ) -> Result<(), ExportError> {
        Ok(())
    }
}

/// A profile that was read once, and whose threads can be read.
#[derive(Debug)]
pub(crate) struct Recording {
    reader: ProfileReader,
    time: TimeKind,
    /// Whether samples are divided into processor time and idle time.
    divides: bool,
}

/// The numbers of threads and samples that were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) threads: u64,
    pub(crate) samples: u64,
}

impl Recording {
    pub(crate) fn open(
        path: &Path,
        options: &ExportOptions,
        labels: &FleetLabels,
        listener: WorkListener,
    ) -> Result<Self, ExportError> {
        let wanted = Wanted {
            names: options.names,
            logs: options.target.has_processes(),
            counters: false,
        };
        let mut reader = ProfileReader::open_with(path, wanted, listener)?;
        labels.apply(reader.meta_mut());
        Ok(Self {
            reader,
            time: options.target.time(options.time),
            divides: options.time == TimeKind::Cpu && options.target.has_one_weight(),
        })
    }

    pub(crate) const fn survey(&self) -> &Survey {
        self.reader.survey()
    }

    pub(super) fn into_survey(self) -> Survey {
        self.reader.into_survey()
    }

    /// The limit on the size of an export; see [`profiler_files::output`].
    pub(super) const fn most_bytes(&self) -> u64 {
        profiler_files::output::most_bytes(self.reader.length())
    }

    /// Passes all threads to `sink`.
    pub(super) fn threads<S: Sink>(&self, sink: &mut S) -> Result<Totals, ExportError> {
        let mut cutter = Cutter {
            time: self.time,
            divides: self.divides,
            sink,
            totals: Totals::default(),
        };
        self.reader.threads(&mut cutter)?;
        Ok(cutter.totals)
    }
}

/// Cuts the samples of threads into slices.
struct Cutter<'s, S> {
    time: TimeKind,
    divides: bool,
    sink: &'s mut S,
    totals: Totals,
}

impl<S: Sink> ThreadSink for Cutter<'_, S> {
    type Error = ExportError;
    const WITH_MARKERS: bool = S::WITH_MARKERS;
    const WITH_COUNTERS: bool = S::WITH_COUNTERS;

    fn thread(&mut self, read: &reading::Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        let cut = Cut {
            time: self.time,
            divides: self.divides,
            meta: &survey.meta,
            shift_ns: bounded_ns(survey.shift_ms(read.part)),
            pauses: Pauses::of_thread(read, survey),
        };
        let slices = cut.slices(read.raw, read.nodes);
        self.totals.threads += 1;
        self.totals.samples += slices.iter().filter(|slice| slice.is_sample).count() as u64;
        let thread = Thread {
            part: read.part,
            process: read.process,
            pid: &read.raw.pid,
            name: read.name,
            tid: read.raw.tid,
            is_main: read.raw.is_main(),
            tables: read.tables,
            has_own_tables: read.has_own_tables,
            slices: &slices,
            markers: &read.raw.markers,
            texts: read.texts,
            shift_ns: cut.shift_ns,
        };
        self.sink.thread(&thread, survey)
    }

    fn counter(&mut self, counter: &CounterSeries, survey: &Survey) -> Result<(), ExportError> {
        let shift_ns = bounded_ns(survey.shift_ms(counter.part));
        self.sink.counter(counter, shift_ns, survey)
    }
}
