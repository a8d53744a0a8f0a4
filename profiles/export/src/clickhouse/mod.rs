//! Rows for ClickHouse: the store in which the profiles of many hosts are compared.
//!
//! Called by [`super::export`] and by the pusher. A profile becomes one **batch** of rows in the
//! tables of [`FleetTable`], in the format `JSONEachRow`; `schema/` has the statements that create
//! the tables.
//!
//! | table | a row |
//! |---|---|
//! | stacks | a stack: its number and the names of its functions, once per batch |
//! | samples | the samples of a thread within ten seconds, as arrays |
//! | spans | a marker: an interval, one end of an interval, or an instant |
//! | counters | the values of a counter within ten seconds, one per second, as arrays |
//! | groups | the time and the runs of a performance group in the batch |
//! | processes | a process: its verdict, its losses and its memory; last in the batch |
//!
//! Samples are arrays because a row for each sample needs three times the bytes in a request, half
//! as much more on disk, and two to three times the time of a query. A sample refers to
//! its stack by a 64-bit hash of the functions' names, so equal stacks of all hosts, releases and
//! batches have equal numbers, and a query adds up numbers before it looks up names.
//!
//! Invariants: the same profile and [`BatchIdentity`] give the same bytes; host, session, batch and
//! `seq` identify a row of a table, so a batch that is inserted twice has the same rows twice,
//! which the tables' engine and `FINAL` in queries reduce to one; times of samples are whole
//! microseconds, each rounded on its own, so sums over a thread are exact to a microsecond.

mod counters;
mod date;
mod files;
mod identity;
mod processes;
mod rows;
mod samples;
mod schema;
mod spans;
mod stacks;

pub use date::{civil_date, days_since_1970};
pub(super) use files::write;
pub(crate) use identity::BatchIdentity;
pub use schema::{Engine, FleetSchema, InvalidSchemaName};

use super::ExportError;
pub use super::fleet_table::FleetTable;

use super::bodies::BodySink;
use super::recording::{Recording, Sink, Thread, Totals};
use profiler_reader::{CounterSeries, Survey};
use rows::Rows;
use samples::SampleRows;
use spans::SpanRows;

/// Passes the rows of a recording to `sink`, in bodies of at most `most_bytes`. The recording must
/// have been opened for [`Target::ClickHouse`](super::Target::ClickHouse).
pub(crate) fn encode(
    recording: &Recording,
    identity: &BatchIdentity,
    most_bytes: usize,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    let survey = recording.survey();
    let mut encoder = Encoder {
        rows: Rows::new(identity, most_bytes, recording.most_bytes(), sink),
        samples: SampleRows::default(),
        spans: SpanRows::new(&survey.meta),
        seen: processes::Seen::default(),
    };
    let totals = recording.threads(&mut encoder)?;
    let Encoder { mut rows, seen, .. } = encoder;
    processes::write(survey, seen, &mut rows)?;
    rows.finish()?;
    Ok(totals)
}

/// Turns threads and counters into rows.
struct Encoder<'r> {
    rows: Rows<'r>,
    samples: SampleRows,
    spans: SpanRows,
    seen: processes::Seen,
}

impl Sink for Encoder<'_> {
    const WITH_MARKERS: bool = true;
    const WITH_COUNTERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        self.seen.thread(thread);
        self.samples.write(thread, &mut self.rows)?;
        self.spans.write(thread, &mut self.rows)
    }

    fn counter(
        &mut self,
        counter: &CounterSeries,
        shift_ns: i64,
        survey: &Survey,
    ) -> Result<(), ExportError> {
        self.seen.counter(counter);
        counters::write(counter, shift_ns, survey, &mut self.rows)
    }
}

#[cfg(test)]
mod tests;
