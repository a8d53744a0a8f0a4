//! Exports recordings to the formats of other tools, and imports `.cpuprofile` files.
//!
//! Called by `profiler export` and `profiler import`, and by applications. [`profiler_reader`] reads
//! the profile one thread at a time, [`recording`] cuts each thread into slices of time, and the
//! format writes it.
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
mod chrome_markers;
mod chrome_trace;
pub mod clickhouse;
mod cpuprofile;
mod depth;
pub mod encode;
mod file_name;
mod folded;
mod import;
mod index;
mod labels;
mod nesting;
mod otlp;
mod pauses;
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

pub use clickhouse::{Engine, FleetSchema, FleetTable, InvalidSchemaName};
pub use import::{Imported, import_cpuprofile, import_cpuprofile_with};
pub use labels::FleetLabels;

use otlp::Signal;
use profiler_files::WorkListener;
use profiler_files::output::{BoundedWriter, OutputError, ProfileFile, WriteBehind};
use profiler_reader::{Nameless, ReadError};
use recording::{Recording, Totals};

/// An export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// V8's format, for Chrome's developer tools and VS Code: a directory with a file for each
    /// thread and `index.json`.
    CpuProfile,
    /// The JSON format of speedscope: a profile for each thread.
    Speedscope,
    /// Chrome's trace events: samples and markers of all processes.
    ChromeTrace,
    /// One line per stack, `process;thread;function;… microseconds`, as flame graph scripts read
    /// them.
    Folded,
    /// A trace of Perfetto: processes, threads, samples with stacks, markers, flows, counters, and
    /// how complete the data of each process is.
    Perfetto,
    /// Google's pprof, compressed: samples, time and processor time, with processes and threads as
    /// labels.
    Pprof,
    /// OTLP: the spans of all threads, with their parents, attributes and events, as one
    /// `ExportTraceServiceRequest`. Files that are appended to each other are one request, too.
    OtlpTraces,
    /// OTLP: the counters of all processes, and their losses, as one
    /// `ExportMetricsServiceRequest`. Files that are appended to each other are one request, too.
    OtlpMetrics,
    /// OTLP: processor time and all time of all stacks, with the spans that were open, as one
    /// `ExportProfilesServiceRequest` of version 1.10.0 (`v1development`).
    OtlpProfiles,
    /// Rows for the tables of [`FleetSchema`] in ClickHouse: a directory with a file for each
    /// table.
    ClickHouse,
}

impl Target {
    /// Whether the format has the logs of processes and the memory of each.
    const fn has_processes(self) -> bool {
        matches!(self, Self::ClickHouse | Self::OtlpMetrics | Self::Perfetto)
    }

    /// The kind of time that the format is made from, if the caller wants this one. Rows have both
    /// times of each sample.
    const fn time(self, wanted: TimeKind) -> TimeKind {
        match self {
            Self::ClickHouse => TimeKind::Wall,
            _ => wanted,
        }
    }
}

/// How to export the time during which a thread did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeKind {
    /// Samples during which the thread used no processor time become `(idle)`, directly under the
    /// root. Of the other samples of a function, enough are kept to account for its processor time;
    /// the remaining ones become `(idle)`, too. If processor time was not measured, this is the
    /// same as [`Self::Wall`].
    #[default]
    Cpu,
    /// Every sample counts for its function, whether the thread ran or waited.
    Wall,
}

/// Options of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The format.
    pub target: Target,
    /// How to export the time during which a thread did not run. pprof and OTLP contain both times.
    pub time: TimeKind,
    /// Whether to look up names for unnamed addresses in files of this machine.
    pub names: bool,
}

impl ExportOptions {
    /// Exports to this format, with processor time and with names.
    pub const fn to(target: Target) -> Self {
        Self {
            target,
            time: TimeKind::Cpu,
            names: true,
        }
    }

    /// Sets the kind of time.
    #[must_use]
    pub const fn time(mut self, time: TimeKind) -> Self {
        self.time = time;
        self
    }

    /// Sets whether to look up names.
    #[must_use]
    pub const fn names(mut self, names: bool) -> Self {
        self.names = names;
        self
    }
}

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The files. The index, if there is one, comes first.
    pub files: Vec<PathBuf>,
    /// Number of threads read.
    pub threads: u64,
    /// Number of samples read.
    pub samples: u64,
    /// Libraries without any named address.
    pub nameless: Vec<Nameless>,
}

/// The reason why the export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The profile cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The profile.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The file to import is not a `.cpuprofile` file.
    #[error("{} is not a .cpuprofile file: {why}", path.display())]
    NotACpuProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file is not a profile.
    #[error("{} is not a profile: {why}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The output would overwrite the input.
    #[error("{} is the input file: choose another output", path.display())]
    Onto {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be created or completed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing to the output or its directory fails. Also returned if the export would have more
    /// than a thousand times the bytes of the profile plus 256 MiB, which no real profile reaches.
    #[error("cannot write the export: {0}")]
    Write(#[from] std::io::Error),
    /// The receiver of the output wants no more of it.
    #[error("the receiver of the export has stopped")]
    Stopped,
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Read { path, source } => Self::Read { path, source },
            ReadError::NotAProfile { path, why } => Self::NotAProfile { path, why },
        }
    }
}

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

/// Returns an error if the output is the input, under any name.
fn not_onto_itself(from: &Path, to: &Path) -> Result<(), ExportError> {
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(read), Ok(written)) if read == written => Err(ExportError::Onto {
            path: to.to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
