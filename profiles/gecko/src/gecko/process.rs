//! Writes one process: its tables in order, and its log at the end.
//!
//! The parent writes the root with [`ProcessPart::write_open`], then the keys of the whole profile,
//! such as `processes`, then [`ProcessPart::close`]. Any other process is written with
//! [`ProcessPart::write`].

use std::io::Write;

use super::libs::Libs;
use super::threads::Threads;
use super::{meta, process_tables};
use crate::failure::{Failure, FailureLatch};
use crate::model::{IncompleteProcess, MarkerPlans, MetaSection, ProcessModel, write_pauses};
use crate::progress::ProgressLogger;
use crate::{ProcessRole, ProcessSummary, ProfileSpec, ProfileSubject, ShownRange};
use profiler_core::internal::reader::{ByteSource, PoolReader, ReadError, Snapshot};
use profiler_core::time::{SessionClock, Timestamp};
use profiler_json::JsonWriter;

/// Returns the markers of incomplete processes. Called once, after all other markers of the root's
/// main thread have been written; may block until the answer is known.
#[derive(Clone, Copy)]
pub struct LateMarkers<'a>(pub &'a (dyn Fn() -> Vec<IncompleteProcess> + Sync));

impl std::fmt::Debug for LateMarkers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LateMarkers").finish_non_exhaustive()
    }
}

/// The data that all tables of one process share, apart from the entries.
#[derive(Debug)]
pub(super) struct GeckoProcess<'a> {
    pub(super) model: ProcessModel<'a>,
    pub(super) plans: MarkerPlans<'a>,
    pub(super) libs: Libs<'a>,
}

impl GeckoProcess<'_> {
    /// Nanoseconds from the session's start.
    pub(super) fn ns(&self, at: Timestamp) -> i64 {
        self.model.ns(at)
    }

    /// Whether an entry whose last time is `last` belongs to the profile.
    pub(super) fn is_wanted(&self, last: Timestamp) -> bool {
        self.model.spec.since.is_none_or(|since| last >= since)
    }
}

/// The input from which the object of one process is written.
#[derive(Debug)]
pub struct ProcessPart<'a, S> {
    /// The reader of the entries.
    pub reader: &'a PoolReader<S>,
    /// Names, threads and entry counts, taken from `reader`.
    pub snapshot: &'a Snapshot,
    /// The session's clock, the same for all processes of a profile.
    pub clock: SessionClock,
    /// The decisions that all parts of the capture share.
    pub spec: &'a ProfileSpec,
    /// The identity of the process in the profile.
    pub role: &'a ProcessRole,
    /// When the process ended, if it did.
    pub ended: Option<Timestamp>,
    /// Markers for the root's main thread that are known only at the end; `None` for children.
    pub late: Option<LateMarkers<'a>>,
    /// Receives the failures of this part, and reports those of other parts.
    pub latch: &'a FailureLatch,
}

impl<'a, S: ByteSource> ProcessPart<'a, S> {
    /// The part of a process that has not ended, with the clock of its own pool and without late
    /// markers.
    pub fn new(
        reader: &'a PoolReader<S>,
        snapshot: &'a Snapshot,
        spec: &'a ProfileSpec,
        role: &'a ProcessRole,
        latch: &'a FailureLatch,
    ) -> Self {
        let clock = reader.header().clock;
        Self {
            reader,
            snapshot,
            clock,
            spec,
            role,
            ended: None,
            late: None,
            latch,
        }
    }

    /// Writes the whole object of a process that has no children in the profile.
    ///
    /// # Errors
    /// The first failure in the latch; then the output is unusable.
    pub fn write<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let summary = self.write_open(out, progress)?;
        out.entry_list("processes", [], |(), _| {});
        self.close(out, None, &[], summary.shown);
        Ok(summary)
    }

    /// Writes the object of a process, except `processes` and `meta`, and leaves it open.
    ///
    /// # Errors
    /// The first failure in the latch; then the output is unusable.
    pub fn write_open<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        self.write_tables(
            out,
            |threads, process, out, progress| threads.write(process, out, progress),
            progress,
        )
    }

    /// Like [`ProcessPart::write_open`], for a process that is not to be shown: without threads,
    /// unless there are late markers.
    ///
    /// # Errors
    /// The first failure in the latch; then the output is unusable.
    pub fn write_hidden<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        self.write_tables(
            out,
            |threads, process, out, progress| threads.write_late(process, out, progress),
            progress,
        )
    }

    fn write_tables<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        write_threads: impl FnOnce(
            &mut Threads<'_, S>,
            &GeckoProcess<'_>,
            &mut JsonWriter<W>,
            ProgressLogger<'_>,
        ) -> Result<(u32, ShownRange), Failure>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let begun = Timestamp::now();
        let process = self.process();
        out.begin_object();
        process.libs.write(out);
        let mut threads = Threads::new(self, &process)?;
        let progress = progress.sub(5, 90, "threads");
        let (number, shown) = write_threads(&mut threads, &process, out, progress)?;
        process_tables::write(&process, &mut threads, out)?;
        let counts = threads.write_log(&process, out);
        write_pauses(&process.model, out);
        self.latch.check()?;
        let spent = process
            .ns(Timestamp::now())
            .saturating_sub(process.ns(begun));
        let writing_ns = u64::try_from(spent).unwrap_or(0);
        Ok(ProcessSummary {
            threads: number,
            counts,
            shown,
            writing_ns,
        })
    }

    /// Ends an object that [`ProcessPart::write_open`] began. `subject` is what the profile is
    /// about, if not this process, and `sections` are further properties of the profile. `shown` is
    /// the sum of the ranges in the summaries of all processes.
    pub fn close<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        subject: Option<&ProfileSubject>,
        sections: &[MetaSection],
        shown: ShownRange,
    ) {
        meta::write(&self.process().model, subject, sections, shown, out);
        out.end_object();
    }

    fn process(&self) -> GeckoProcess<'_> {
        let definitions = &self.snapshot.definitions;
        GeckoProcess {
            model: ProcessModel::new(self.snapshot, self.spec, self.role, self.clock, self.ended),
            plans: MarkerPlans::new(definitions, &self.spec.categories),
            libs: Libs::new(definitions),
        }
    }

    /// Converts an error of the reader to a failure, and reports it to the latch.
    pub(super) fn read<T>(&self, result: Result<T, ReadError>) -> Result<T, Failure> {
        result.map_err(|error| {
            self.latch.fail(Failure::Data(error.to_string()));
            self.latch.failure().cloned().unwrap_or(Failure::Cancelled)
        })
    }
}
