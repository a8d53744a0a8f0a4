//! The options of `profiler record` that are one of several words.

use clap::ValueEnum;
use profiler_parent::SampleSource;

/// The source of the samples of running threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Source {
    /// A timer of the system on the processor time of each thread
    Timer,
    /// A perf event of each thread, if the system allows it: for intervals below the system's tick
    Sigtrap,
    /// Signals that the profiler sends; uses about a tenth of a processor at 1 ms
    Signal,
}

impl From<Source> for SampleSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Timer => Self::Timer,
            Source::Sigtrap => Self::Sigtrap,
            Source::Signal => Self::Signal,
        }
    }
}

/// The format of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The Firefox Profiler's own format, which opens fastest; contains names, files and lines
    #[default]
    Processed,
    /// The format that Firefox writes: one object per process
    Gecko,
}

impl From<Format> for profiler_parent::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Processed => Self::Processed,
            Format::Gecko => Self::Gecko,
        }
    }
}
