//! What to export, and the result: formats, options, files.
//!
//! Given by the command and by applications to [`export`](crate::export()).

use std::path::PathBuf;

use profiler_reader::Nameless;

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
    /// Rows for the tables of [`FleetSchema`](crate::FleetSchema) in ClickHouse: a directory with a
    /// file for each table.
    ClickHouse,
}

impl Target {
    /// Whether the format has the logs of processes and the memory of each.
    pub(crate) const fn has_processes(self) -> bool {
        matches!(self, Self::ClickHouse | Self::OtlpMetrics | Self::Perfetto)
    }

    /// The kind of time that the format is made from, if the caller wants this one. Some formats
    /// have both times of each sample.
    pub(crate) const fn time(self, wanted: TimeKind) -> TimeKind {
        match self {
            Self::ClickHouse | Self::Pprof | Self::OtlpProfiles => TimeKind::Wall,
            _ => wanted,
        }
    }

    /// Whether the length of a slice is the only weight of its stack.
    pub(crate) const fn has_one_weight(self) -> bool {
        matches!(
            self,
            Self::CpuProfile | Self::Speedscope | Self::ChromeTrace | Self::Folded
        )
    }
}

/// How to export the time during which a thread did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeKind {
    /// The time of a sample is its processor time; the rest of it becomes `(idle)`, directly under
    /// the root. If processor time was not measured, this is the same as [`Self::Wall`].
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
