//! One process: its tables in order, its books at the end.
//!
//! The parent writes the root with [`ProcessPart::write_open`], then the key `processes` and
//! whatever else belongs there, then [`ProcessPart::close`]. Everyone else is written with
//! [`ProcessPart::write`].

use std::io::Write;

use super::context::Context;
use super::late::LateMarkers;
use super::libs::Libs;
use super::plan::MarkerPlans;
use super::threads::Threads;
use super::{meta, paused, process_tables};
use crate::profile::failure::{Failure, FailureLatch};
use crate::profile::json::JsonWriter;
use crate::profile::progress::ProgressLogger;
use crate::profile::spec::{ProcessRole, ProcessSummary, ProfileSpec, ShownRange};
use crate::reader::{ByteSource, PoolReader, ReadError, Snapshot};
use crate::time::{SessionClock, Timestamp};

/// What the object of one process is written from.
#[derive(Debug)]
pub struct ProcessPart<'a, S> {
    /// Where the entries are.
    pub reader: &'a PoolReader<S>,
    /// Names, threads and books, taken from `reader`.
    pub snapshot: &'a Snapshot,
    /// The session's clock, the same for all processes of a profile.
    pub clock: SessionClock,
    /// What all parts of the capture share.
    pub spec: &'a ProfileSpec,
    /// Which process it is.
    pub role: &'a ProcessRole,
    /// When the process ended, if it did.
    pub ended: Option<Timestamp>,
    /// Markers for the main thread that are known only at the very end; the root's.
    pub late: Option<LateMarkers<'a>>,
    /// Where failures are reported, and found.
    pub latch: &'a FailureLatch,
}

impl<S: ByteSource> ProcessPart<'_, S> {
    /// Writes the whole object of a process that has no children in the profile.
    ///
    /// # Errors
    /// The first failure that the latch knows; the output is useless then.
    pub fn write<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let summary = self.write_open(out, progress)?;
        out.key("processes");
        out.begin_array();
        out.end_array();
        self.close(out, summary.shown);
        Ok(summary)
    }

    /// Writes the object of a process, all but `processes` and `meta`, and leaves it open.
    ///
    /// # Errors
    /// The first failure that the latch knows; the output is useless then.
    pub fn write_open<W: Write>(
        &self,
        out: &mut JsonWriter<W>,
        mut progress: ProgressLogger<'_>,
    ) -> Result<ProcessSummary, Failure> {
        let begun = Timestamp::now();
        let context = self.context();
        out.begin_object();
        context.libs.write(out);
        let mut threads = Threads::new(self, &context)?;
        let (number, shown) = threads.write(&context, out, progress.sub(5, 90, "threads"))?;
        process_tables::write(&context, &mut threads, out)?;
        let counts = threads.write_log(&context, out);
        paused::write(&context, out);
        self.latch.check()?;
        let spent = context.ns(Timestamp::now()).saturating_sub(context.ns(begun));
        let writing_ns = u64::try_from(spent).unwrap_or(0);
        Ok(ProcessSummary { threads: number, counts, shown, writing_ns })
    }

    /// Ends an object that [`ProcessPart::write_open`] began. `shown` is the range of time that
    /// all processes span together, as their summaries say.
    pub fn close<W: Write>(&self, out: &mut JsonWriter<W>, shown: ShownRange) {
        meta::write(&self.context(), shown, out);
        out.end_object();
    }

    fn context(&self) -> Context<'_> {
        Context {
            snapshot: self.snapshot,
            spec: self.spec,
            role: self.role,
            clock: self.clock,
            converter: self.clock.converter(self.spec.later),
            ended: self.ended,
            plans: MarkerPlans::new(&self.snapshot.definitions, &self.spec.categories),
            libs: Libs::new(&self.snapshot.definitions),
        }
    }

    /// Reports that the pool could not be read.
    pub(super) fn read<T>(&self, result: Result<T, ReadError>) -> Result<T, Failure> {
        result.map_err(|error| {
            self.latch.fail(Failure::Data(error.to_string()));
            self.latch.failure().cloned().unwrap_or(Failure::Cancelled)
        })
    }
}
