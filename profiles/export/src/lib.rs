//! Exports recordings to the formats of other tools, and imports `.cpuprofile` files.
//!
//! Called by `profiler export` and `profiler import`, and by applications. [`profiler_reader`]
//! reads the profile one thread at a time, [`recording`] cuts each thread into slices of time, and
//! the format writes it.
//!
//! | format | content | files |
//! |---|---|---|
//! | [`Target::CpuProfile`] | the call tree of one thread | one per thread, and an index |
//! | [`Target::Speedscope`] | the functions of all threads | one |
//! | [`Target::ChromeTrace`] | the call tree of one thread, its markers | one |
//! | [`Target::Folded`] | the call tree of one thread | one |
//! | [`Target::Pprof`] | functions, places and texts of all threads | one |
//! | [`Target::Perfetto`] | stacks, markers, counters and processes | one |
//! | [`Target::OtlpTraces`] | numbers and parents of all spans, the markers of one thread | one |
//! | [`Target::OtlpMetrics`] | one counter | one |
//! | [`Target::OtlpProfiles`] | as traces; stacks, functions and texts of all threads | one |
//! | [`Target::ClickHouse`] | stacks, samples, markers, counters, groups and processes | one per table |
//!
//! Invariants: the lengths of a thread's slices add up to the time during which it was observed; a
//! call tree has one node for each path; a file appears under its name only when it is complete;
//! time, memory and output are bounded by the profile's length; times are limited to 36 years
//! before and after the session's start.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod bodies;
mod by_row;
mod call_frame;
pub mod call_tree;
mod chrome_trace;
pub mod clickhouse;
mod cpuprofile;
mod depth;
pub mod encode;
mod error;
mod file_name;
mod fleet_table;
mod folded;
mod import;
mod index;
mod labels;
mod nesting;
mod options;
mod otlp;
mod payload;
mod perfetto;
mod pprof;
mod pprof_bodies;
mod proto;
mod recording;
mod slices;
mod speedscope;
pub mod stack_profile;
mod stack_sums;
mod tree;

use std::path::{Path, PathBuf};

pub use clickhouse::{Engine, FleetSchema, InvalidSchemaName};
pub use error::ExportError;
pub use fleet_table::FleetTable;
pub use import::{Imported, import_cpuprofile, import_cpuprofile_with};
pub use labels::FleetLabels;
pub use options::{ExportOptions, Exported, Target, TimeKind};

use error::not_onto_itself;
use otlp::Signal;
use profiler_files::WorkListener;
use profiler_files::output::{BoundedWriter, ProfileFile, WriteBehind};
use recording::{Recording, Totals};

/// Exports the profile `from`, in either form, compressed or not, to `to`. `to` is a file, which is
/// replaced. For [`Target::CpuProfile`] and [`Target::ClickHouse`] it is a directory, which is
/// created if it is missing; files of the same names in it are replaced.
///
/// Takes about as long as reading the profile twice; see the [module](self) for the memory it
/// needs.
///
/// # Errors
/// [`ExportError`]; the file is unchanged then. Completed files of threads remain.
pub fn export(from: &Path, to: &Path, options: &ExportOptions) -> Result<Exported, ExportError> {
    export_with(from, to, options, WorkListener::default())
}

/// Like [`export`], and reports the progress. The output is written while the input is read.
///
/// # Errors
/// As [`export`].
pub fn export_with(
    from: &Path,
    to: &Path,
    options: &ExportOptions,
    listener: WorkListener,
) -> Result<Exported, ExportError> {
    export_labelled(from, to, options, &FleetLabels::default(), listener)
}

/// Like [`export_with`]. The labels are in the rows of [`Target::ClickHouse`] and in the resources
/// of OTLP. In other formats, the name of the service replaces that of the application.
///
/// # Errors
/// As [`export`].
pub fn export_labelled(
    from: &Path,
    to: &Path,
    options: &ExportOptions,
    labels: &FleetLabels,
    listener: WorkListener,
) -> Result<Exported, ExportError> {
    not_onto_itself(from, to)?;
    let recording = Recording::open(from, options, labels, listener)?;
    let (totals, files) = match options.target {
        Target::CpuProfile => cpuprofile::write(&recording, to, options.time)?,
        Target::Speedscope => one_file(&recording, to, |recording, out| {
            speedscope::write(recording, out)
        })?,
        Target::ChromeTrace => one_file(&recording, to, |recording, out| {
            chrome_trace::write(recording, out)
        })?,
        Target::Folded => one_file(&recording, to, |recording, out| {
            folded::write(recording, out)
        })?,
        Target::Perfetto => one_file(&recording, to, |recording, out| {
            perfetto::write(recording, out)
        })?,
        Target::Pprof => (pprof::write(&recording, to)?, vec![to.to_owned()]),
        Target::OtlpTraces => one_file(&recording, to, |recording, out| {
            otlp::write(recording, Signal::Traces, out)
        })?,
        Target::OtlpMetrics => one_file(&recording, to, |recording, out| {
            otlp::write(recording, Signal::Metrics, out)
        })?,
        Target::OtlpProfiles => one_file(&recording, to, |recording, out| {
            otlp::write(recording, Signal::Profiles, out)
        })?,
        Target::ClickHouse => clickhouse::write(&recording, labels, to)?,
    };
    let nameless = recording.into_survey().into_nameless();
    Ok(Exported {
        files,
        threads: totals.threads,
        samples: totals.samples,
        nameless,
    })
}

/// Exports to a format with a single file.
fn one_file(
    recording: &Recording,
    to: &Path,
    write: impl FnOnce(&Recording, BoundedWriter<&mut OneFile>) -> Result<Totals, ExportError>,
) -> Result<(Totals, Vec<PathBuf>), ExportError> {
    let mut file = ProfileFile::create_behind(to)?;
    let totals = write(
        recording,
        BoundedWriter::new(&mut file, recording.most_bytes()),
    )?;
    file.finish()?.commit()?;
    Ok((totals, vec![to.to_owned()]))
}

/// The output of a format with a single file.
type OneFile = WriteBehind<ProfileFile>;

#[cfg(test)]
mod tests;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
