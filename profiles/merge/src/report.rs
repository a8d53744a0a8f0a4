//! The inputs, the result and the errors of [`merge`](super::merge).

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::uncertainty::Uncertainty;
use profiler_files::output::OutputError;
use profiler_json::PROCESSED_VERSION;
use profiler_reader::ReadError;

/// One profile to be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeInput {
    /// Its file.
    pub path: PathBuf,
    /// The name of its host, instead of the one that the profile has.
    pub name: Option<String>,
}

impl std::ops::AddAssign for MergeCounts {
    fn add_assign(&mut self, other: Self) {
        self.threads = self.threads.saturating_add(other.threads);
        self.samples = self.samples.saturating_add(other.samples);
        self.markers = self.markers.saturating_add(other.markers);
    }
}

impl MergeInput {
    /// A profile whose host has the name that the profile states, or else the name of the file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            name: None,
        }
    }
}

/// A shift of one host on the time line, which the caller chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct HostShift {
    /// The host's name in the merged profile. All hosts of its input are moved.
    pub host: String,
    /// By how many nanoseconds it is moved; positive numbers move it to a later time.
    pub ns: i64,
}

/// The numbers of threads, samples and markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergeCounts {
    /// Threads.
    pub threads: u64,
    /// Samples of all threads.
    pub samples: u64,
    /// Markers of all threads.
    pub markers: u64,
}

/// One host of a merged profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MergedHost {
    /// Its name in the profile.
    pub name: String,
    /// The input that contains it.
    pub file: PathBuf,
    /// When its recording begins, in milliseconds since the start of the profile.
    pub begins_ms: f64,
    /// The part of `begins_ms` that the caller's shift adds.
    pub shifted_ms: f64,
    /// How exactly it is placed.
    pub uncertainty: Uncertainty,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Merged {
    /// The path of the profile.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it contains.
    #[serde(flatten)]
    pub counts: MergeCounts,
    /// Its hosts.
    pub hosts: Vec<MergedHost>,
    /// What may be wrong with the merged profile, in words.
    pub warnings: Vec<String>,
}

/// The reason why profiles cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no input.
    #[error("no profile to merge")]
    NoInput,
    /// There are more inputs, or more hosts in them, than a merged profile may have.
    #[error("there are more than {most} hosts to merge")]
    TooManyHosts {
        /// The limit.
        most: usize,
    },
    /// An input cannot be read, or is not a profile.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An input is in the Gecko format.
    #[error(
        "{} is in the Gecko format, which cannot be merged: capture in the default format",
        path.display()
    )]
    GeckoFormat {
        /// The input.
        path: PathBuf,
    },
    /// An input is in another version of the processed format.
    #[error(
        "{} is in version {version} of the processed format, and only version {} can be merged: \
         merge the profile as it was recorded, not as a viewer has saved it",
        path.display(),
        PROCESSED_VERSION
    )]
    Version {
        /// The input.
        path: PathBuf,
        /// Its version.
        version: String,
    },
    /// A file is an input twice.
    #[error("{} is an input twice", path.display())]
    DuplicateInput {
        /// The input.
        path: PathBuf,
    },
    /// An input was changed or replaced while it was merged.
    #[error("{} was changed during the merge: merge again", path.display())]
    InputChanged {
        /// The input.
        path: PathBuf,
    },
    /// The output would overwrite an input.
    #[error("{} is an input: choose another output", path.display())]
    OutputIsInput {
        /// The input.
        path: PathBuf,
    },
    /// The caller's name for a host cannot be one.
    #[error("{name:?} cannot be the name of a host: {why}")]
    InvalidHostName {
        /// The name.
        name: String,
        /// The reason, in words.
        why: String,
    },
    /// An input with several hosts cannot get one name.
    #[error("{} cannot be called {name}: it has the hosts {}", path.display(), hosts.join(", "))]
    NameOfSeveralHosts {
        /// The input.
        path: PathBuf,
        /// The name.
        name: String,
        /// Its hosts.
        hosts: Vec<String>,
    },
    /// A host that is to be moved does not exist.
    #[error("there is no host {host} to move; there are {}", hosts.join(", "))]
    UnknownHost {
        /// The host.
        host: String,
        /// All hosts.
        hosts: Vec<String>,
    },
    /// The inputs do not fit together.
    #[error("cannot merge: {why}")]
    Incompatible {
        /// The reason, in words.
        why: String,
    },
    /// The output cannot be created or completed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing to the output fails.
    #[error("cannot write the merged profile: {0}")]
    Write(#[source] io::Error),
    /// A temporary file cannot be written or read.
    #[error("cannot use a temporary file in {}: {source}", directory.display())]
    Temporary {
        /// The directory of the file.
        directory: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}
