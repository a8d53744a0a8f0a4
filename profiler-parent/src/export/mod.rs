//! Recordings in the formats of other tools, and `.cpuprofile` files as recordings.
//!
//! Called by `profiler export` and `profiler import`, and by applications. [`crate::reading`] reads the
//! profile one thread at a time, [`recording`] cuts each into slices of time, and the format writes it.
//!
//! | format | what it holds besides | files |
//! |---|---|---|
//! | [`Target::CpuProfile`] | the call tree of one thread | one per thread, and an index |
//! | [`Target::Speedscope`] | the functions of all threads | one |
//! | [`Target::ChromeTrace`] | the call tree of one thread, its markers | one |
//! | [`Target::Folded`] | the call tree of one thread | one |
//! | [`Target::Pprof`] | functions, places and texts of all threads | one |
//!
//! Invariants: the lengths of a thread's slices add up to the time that it was looked at; a call tree has one node for
//! each path; a file appears under its name only when it is complete; time, memory and output are bounded by the profile's length;
//! times beyond 36 years from the session's start count as that.

mod bounded;
mod call_frame;
mod chrome_markers;
mod chrome_trace;
mod cpuprofile;
mod file_name;
mod folded;
mod import;
mod index;
mod pauses;
mod pprof;
mod proto;
mod recording;
mod slices;
mod speedscope;
mod tree;

use std::path::{Path, PathBuf};

pub use import::{Imported, import_cpuprofile};

use crate::output::{OutputError, ProfileFile};
use crate::reading::{Nameless, ReadError};
use bounded::Bounded;
use recording::{Recording, Totals};

/// A format to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// V8's, which Chrome's developer tools and VS Code open: a directory with a file for each thread and `index.json`.
    CpuProfile,
    /// speedscope's own JSON: a profile for each thread.
    Speedscope,
    /// Chrome's trace events: samples and markers of all processes.
    ChromeTrace,
    /// A line for each stack, `process;thread;function;… microseconds`, as flame graph scripts read them.
    Folded,
    /// Google's pprof, compressed: samples, time and processor time, with processes and threads as labels.
    Pprof,
}

/// What becomes of the time in which a thread did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeKind {
    /// Samples in which the thread used no processor time are `(idle)`, directly under the root. Of samples that used some
    /// of it so many are kept, function by function, that their time is the processor time. Where it was not measured
    /// this is the same as [`Self::Wall`].
    #[default]
    Cpu,
    /// Every sample counts for the function that it was taken in, whether it ran or waited.
    Wall,
}

/// How to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The format.
    pub target: Target,
    /// What becomes of the time in which a thread did not run. pprof has both times side by side.
    pub time: TimeKind,
    /// Whether addresses without a name get the one that this machine's files have for them.
    pub names: bool,
}

impl ExportOptions {
    /// To this format, with processor time and with names.
    pub const fn to(target: Target) -> Self {
        Self { target, time: TimeKind::Cpu, names: true }
    }

    /// With this time.
    #[must_use]
    pub const fn time(mut self, time: TimeKind) -> Self {
        self.time = time;
        self
    }

    /// With or without looking up names.
    #[must_use]
    pub const fn names(mut self, names: bool) -> Self {
        self.names = names;
        self
    }
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The files; the index, where there is one, first.
    pub files: Vec<PathBuf>,
    /// Threads that were read.
    pub threads: u64,
    /// Samples that were read.
    pub samples: u64,
    /// Libraries of which no address has a name.
    pub nameless: Vec<Nameless>,
}

/// Why there is no export.
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
    /// The file to import is something else.
    #[error("{} is not a .cpuprofile file: {why}", path.display())]
    NotACpuProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file is something else.
    #[error("{} is not a profile: {why}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What is read would be written over.
    #[error("{} is what is read: choose another name for what is written", path.display())]
    Onto {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be made or completed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The output, or the directory that it goes to, fails; also if it would be more than a thousand times as long as the
    /// profile (and 256 MiB), which no profiler writes.
    #[error("cannot write the export: {0}")]
    Write(#[from] std::io::Error),
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Read { path, source } => Self::Read { path, source },
            ReadError::NotAProfile { path, why } => Self::NotAProfile { path, why },
        }
    }
}

/// Writes the profile `from`, of either form, compressed or not, in another format to `to`: a file that is replaced, or
/// for [`Target::CpuProfile`] a directory, which is made if need be and whose files of the same names are replaced.
///
/// Takes about as long as reading the profile twice; see the [module](self) for what it holds.
///
/// # Errors
/// [`ExportError`]; then the file is as it was. Files of threads that were complete stay.
pub fn export(from: &Path, to: &Path, options: &ExportOptions) -> Result<Exported, ExportError> {
    not_onto_itself(from, to)?;
    let recording = Recording::open(from, options)?;
    let (totals, files) = match options.target {
        Target::CpuProfile => cpuprofile::write(&recording, to, options.time)?,
        Target::Speedscope => one_file(&recording, to, |recording, out| speedscope::write(recording, out))?,
        Target::ChromeTrace => {
            one_file(&recording, to, |recording, out| chrome_trace::write(recording, out))?
        }
        Target::Folded => one_file(&recording, to, |recording, out| folded::write(recording, out))?,
        Target::Pprof => (pprof::write(&recording, to)?, vec![to.to_owned()]),
    };
    let nameless = recording.into_survey().into_nameless();
    Ok(Exported { files, threads: totals.threads, samples: totals.samples, nameless })
}

/// Writes a format that is one file.
fn one_file(
    recording: &Recording,
    to: &Path,
    write: impl FnOnce(&Recording, Bounded<&mut ProfileFile>) -> Result<Totals, ExportError>,
) -> Result<(Totals, Vec<PathBuf>), ExportError> {
    let mut file = ProfileFile::create(to)?;
    let totals = write(recording, Bounded::new(&mut file, recording.most_bytes()))?;
    file.commit()?;
    Ok((totals, vec![to.to_owned()]))
}

/// Refuses to write a file over itself, whatever name it has.
fn not_onto_itself(from: &Path, to: &Path) -> Result<(), ExportError> {
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(read), Ok(written)) if read == written => Err(ExportError::Onto { path: to.to_owned() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
