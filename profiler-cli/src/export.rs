//! `profiler export FILE --to FORMAT [-o OUT]`: writes a profile in the format of another tool.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use profiler_export::{ExportOptions, Exported, FleetLabels, Target, TimeKind, export_labelled};
use profiler_reader::Nameless;

use crate::console::{say, tell};
use crate::output_name::OutputName;
use crate::plain::plain;
use crate::progress::ProgressLine;
use crate::signals::end_without_leftovers;

/// Writes a profile in the format of another tool
///
/// Reads any profile, in the format of the Firefox Profiler or of Firefox, compressed or not. A
/// sample covers the time since the previous sample. Without --wall, samples in which a thread used
/// no processor time are idle; of a function's other samples as many are kept as its processor time
/// amounts to. A profile without processor times is exported with wall times.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A profile (.json or .json.gz)
    file: PathBuf,
    /// The format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Format,
    /// The file to write, or the directory for cpuprofile and clickhouse [default: the profile's
    /// name with another ending, and with a number if that exists]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Exports processor time: time in which threads did not run is (idle) [the default]
    #[arg(long, conflicts_with = "wall")]
    cpu: bool,
    /// Exports wall time: functions keep the time in which they waited
    #[arg(long)]
    wall: bool,
    /// Keeps addresses without names, and reads no debug information
    #[arg(long)]
    no_names: bool,
    /// For clickhouse and OTLP: the name of the service [default: the profile's parent process]
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// For clickhouse and OTLP: the version of the service
    #[arg(long, value_name = "VERSION")]
    service_version: Option<String>,
    /// For clickhouse and OTLP: the name of the host [default: the one in the profile]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A file per thread and an index, for Chrome's developer tools and VS Code
    Cpuprofile,
    /// A profile per thread, for speedscope
    Speedscope,
    /// Samples and markers as trace events, for Chrome and the Firefox Profiler
    ChromeTrace,
    /// A line per stack with its microseconds, for flame graph scripts
    Folded,
    /// For Google's pprof
    Pprof,
    /// Samples, markers, counters and processes as a trace of Perfetto
    Perfetto,
    /// Spans, as a request of OTLP (OpenTelemetry)
    OtlpTraces,
    /// Counters and losses, as a request of OTLP
    OtlpMetrics,
    /// Samples with their spans, as a request of OTLP (v1development)
    OtlpProfiles,
    /// Rows for ClickHouse: a file per table, see `profiler fleet ddl`
    Clickhouse,
}

impl Format {
    /// Whether the format states the service, its version and the host.
    const fn has_labels(self) -> bool {
        matches!(
            self,
            Self::Clickhouse | Self::OtlpTraces | Self::OtlpMetrics | Self::OtlpProfiles
        )
    }

    const fn target(self) -> Target {
        match self {
            Self::Cpuprofile => Target::CpuProfile,
            Self::Speedscope => Target::Speedscope,
            Self::ChromeTrace => Target::ChromeTrace,
            Self::Folded => Target::Folded,
            Self::Pprof => Target::Pprof,
            Self::Perfetto => Target::Perfetto,
            Self::OtlpTraces => Target::OtlpTraces,
            Self::OtlpMetrics => Target::OtlpMetrics,
            Self::OtlpProfiles => Target::OtlpProfiles,
            Self::Clickhouse => Target::ClickHouse,
        }
    }

    /// Whether the format contains samples.
    const fn has_samples(self) -> bool {
        !matches!(self, Self::OtlpTraces | Self::OtlpMetrics)
    }

    /// Whether a directory is written, with several files.
    const fn is_directory(self) -> bool {
        matches!(self, Self::Cpuprofile | Self::Clickhouse)
    }

    /// The ending that replaces `.json` or `.json.gz`.
    const fn ending(self) -> &'static str {
        match self {
            Self::Cpuprofile => "-cpuprofiles",
            Self::Speedscope => ".speedscope.json",
            Self::ChromeTrace => ".trace.json",
            Self::Folded => ".folded",
            Self::Pprof => ".pb.gz",
            Self::Perfetto => ".pftrace",
            Self::OtlpTraces => ".otlp-traces.pb.gz",
            Self::OtlpMetrics => ".otlp-metrics.pb.gz",
            Self::OtlpProfiles => ".otlp-profiles.pb.gz",
            Self::Clickhouse => "-clickhouse",
        }
    }
}

pub(crate) fn run(options: &ExportArgs) -> Result<()> {
    let time = if options.wall {
        TimeKind::Wall
    } else {
        TimeKind::Cpu
    };
    let wanted = ExportOptions::to(options.to.target())
        .time(time)
        .names(!options.no_names);
    let mut labels = FleetLabels::default();
    labels.service.clone_from(&options.service);
    labels.version.clone_from(&options.service_version);
    labels.host.clone_from(&options.host);
    ensure!(
        options.to.has_labels() || labels == FleetLabels::default(),
        "only --to clickhouse and --to otlp-… have --service, --service-version and --host"
    );
    ensure!(
        options.output.as_deref() != Some(Path::new("-")),
        "cannot export to standard output; name a file with -o"
    );
    let (output, exported) = export(options, &wanted, &labels)?;
    let Exported {
        files,
        threads,
        samples,
        nameless,
    } = exported;
    for Nameless { library, why } in nameless {
        tell(&format!(
            "profiler: no names for {}: {}",
            plain(&library),
            plain(&why)
        ));
    }
    if options.to.has_samples() {
        say(&format!("{samples} samples of {threads} threads"));
    }
    match files.len() {
        1 => say(&format!("wrote {}", output.display())),
        count => say(&format!("wrote {count} files to {}", output.display())),
    }
    Ok(())
}

/// Writes the file or the directory. Returns its path.
fn export(
    options: &ExportArgs,
    wanted: &ExportOptions,
    labels: &FleetLabels,
) -> Result<(PathBuf, Exported)> {
    let output = OutputName::beside(
        options.output.as_deref(),
        &options.file,
        options.to.ending(),
    );
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    let listener = line.listener(&options.file);
    let write = |path: &Path| export_labelled(&options.file, path, wanted, labels, listener);
    let exported = match options.to.is_directory() {
        true => {
            let directory = output.now();
            let exported = write(&directory);
            exported
                .map(|exported| (directory, exported))
                .map_err(anyhow::Error::from)
        }
        false => output.write(write),
    };
    line.clear();
    exported
}
