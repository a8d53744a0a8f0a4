//! `profiler record -- CMD`: the parent for a program that embeds only `profiler-child`.
//!
//! One session with one child, and the processes below it that join. Invariants: the profile is also
//! written if a process kills the program; a file that the user did not name is never overwritten;
//! the program's exit code is the command's.

mod features;
mod progress;
mod stop;
mod units;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_parent::ByteLimit;
use profiler_parent::core::groups::Probes;
use profiler_parent::core::session::Features;
use profiler_parent::internal::output::ProfileFile;
use profiler_parent::{
    CaptureReport, ProcessReport, ProfiledChild, SampleSource, Session, SessionBuilder, Verdict,
};

use crate::plain::plain;
use crate::progress::{ProgressLine, with_progress};
use crate::signals::Signals;
use stop::Stopping;

/// Runs a program and writes its profile
///
/// For programs that embed `profiler-child` and have no parent of their own: they only have to call
/// `profiler_child::init()` at the beginning of main. Other programs run as usual; if no process
/// records, no profile is written.
///
/// CMD and every process below it that embeds the profiler are profiled, whichever process starts
/// them: CMD may be a shell script, `cargo run` or a job pool. The exceptions are processes whose
/// environment was cleared, and processes that a program starts in a session of its own, which are
/// in that session's profile.
///
/// Ctrl-C ends CMD, and its profile is written as usual. A third Ctrl-C kills CMD. The exit code is
/// CMD's, or 128 + N if signal N ended CMD, or 2 if CMD cannot be started or its profile cannot be
/// written.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The profile to write; compressed if the name ends in .gz [default: profile.json.gz, or
    /// profile-2.json.gz and so on if that exists]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The memory limit of the recording, such as 64M; the oldest data is dropped first [default:
    /// 128M]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    limit: Option<u64>,
    /// Milliseconds between two samples of a thread; with the source "timer" at least the tick of
    /// the system, 1 to 10 ms [default: 1]
    #[arg(long, value_name = "MS", value_parser = units::milliseconds, allow_negative_numbers = true)]
    interval: Option<Duration>,
    /// Where the samples of running threads come from: "timer" costs least; "sigtrap" and "signal"
    /// allow shorter intervals [default: timer, if the system gives timers]
    #[arg(long, value_enum, value_name = "SOURCE")]
    sample_source: Option<Source>,
    /// The percentage of each process's processor time that sampling may use, 0.01 to 100; samples
    /// become rarer if it uses more [default: no limit]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, allow_negative_numbers = true)]
    overhead_budget: Option<f64>,
    /// What to record besides markers, separated by commas; "default" stands for the default ones
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = features::parse, help = features::help())]
    features: Vec<Features>,
    /// Measures the time of performance groups, which the profile then shows as tracks; each entry
    /// into a group takes longer, because it reads the clock
    #[arg(long)]
    groups: bool,
    /// Records only threads whose name contains NAME, without regard to ASCII case; may be repeated
    #[arg(long, value_name = "NAME")]
    filter: Vec<String>,
    /// The format of the profile
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Keeps only the last S seconds
    #[arg(long, value_name = "S", value_parser = units::seconds)]
    duration: Option<Duration>,
    /// Serves the live page during the recording, on this address of this machine, and prints its
    /// link; port 0 is any free port, and a port alone is a port of 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = units::address)]
    live: Option<SocketAddr>,
    /// The name of the profiled program in the profile [default: its file name]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Shows CMD with its arguments in the profile; they may contain secrets
    #[arg(long)]
    show_arguments: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The source of the samples of running threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
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
enum Format {
    /// The Firefox Profiler's own format, which opens fastest; contains names, files and lines
    #[default]
    Processed,
    /// The format that Firefox writes: one object per process
    Gecko,
}

pub(crate) fn run(options: &RecordArgs) -> Result<ExitCode> {
    let target = options
        .output
        .clone()
        .unwrap_or_else(crate::report::free_name);
    drop(ProfileFile::create(&target)?); // fail now, not after an hour of recording
    let session = options.build().start()?;
    // The tracks show the time of groups, and no other measurement of them.
    let _measured = options.groups.then(|| session.monitor(Probes::JANK));
    let live = options
        .live
        .map(|address| session.serve_live(address))
        .transpose()?;
    if let Some(live) = &live {
        eprintln!("profiler: live at {}", live.url());
        // Not as an argument, which every user of the machine could read.
        eprintln!(
            "profiler: in a terminal: {}={} profiler top",
            crate::top::VARIABLE,
            live.url()
        );
    }
    let signals = Signals::catch()?;
    let mut child = session.spawn(&options.shown_name(), options.command())?;
    if options.name.is_none() {
        child.name_by_program();
    }
    let stopping = Stopping::watch(signals, child.signals())?;
    let status = progress::wait(&session, &mut child);
    stopping.has_ended();
    let name = child.name();
    let has_joined = |process: &ProcessReport| process.has_joined && process.unprofiled.is_none();
    if !child.has_begun() && !session.processes().iter().any(has_joined) {
        report_no_profile(&child, &name);
        return Ok(exit_code(status));
    }
    // Another process may have created the file meanwhile.
    let target = options
        .output
        .clone()
        .unwrap_or_else(crate::report::free_name);
    drop(live);
    let line = ProgressLine::new();
    let report = options.capture(&session, &target, &line)?;
    report_profile(&report, &name);
    Ok(exit_code(status))
}

impl RecordArgs {
    fn build(&self) -> SessionBuilder {
        // From this process only the markers about the end of the program are of interest.
        let mut builder = Session::builder()
            .name("profiler")
            .own_features(Features::NONE);
        if let Some(bytes) = self.limit {
            builder = builder.memory_limit(ByteLimit::new(bytes));
        }
        if let Some(interval) = self.interval {
            builder = builder.interval(interval);
        }
        if let Some(source) = self.sample_source {
            builder = builder.sample_source(source.into());
        }
        if let Some(percent) = self.overhead_budget {
            builder = builder.overhead_budget(percent);
        }
        if let Some(window) = self.duration {
            builder = builder.duration(window);
        }
        if let Some(features) = features::union(&self.features) {
            builder = builder.features(features);
        }
        self.filter
            .iter()
            .fold(builder, |builder, filter| builder.filter(filter))
    }

    fn command(&self) -> Command {
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words);
        command
    }

    /// Saves the profile of the program. This command has nothing to show in it.
    fn capture(
        &self,
        session: &Session,
        target: &Path,
        line: &ProgressLine,
    ) -> Result<CaptureReport> {
        let format = match self.format {
            Format::Processed => profiler_parent::Format::Processed,
            Format::Gecko => profiler_parent::Format::Gecko,
        };
        let mut capture = session.capture().format(format).only_children();
        if self.show_arguments {
            let words: Vec<_> = self
                .command
                .iter()
                .map(|word| word.to_string_lossy())
                .collect();
            capture = capture.arguments(words.join(" "));
        }
        Ok(with_progress(line, capture.events(), || {
            capture.save(target)
        })?)
    }

    fn shown_name(&self) -> String {
        let program = self.command.first().map(Path::new);
        let file_name = || Some(program?.file_name()?.to_string_lossy().into_owned());
        self.name
            .clone()
            .or_else(file_name)
            .unwrap_or_else(|| "program".to_owned())
    }
}

fn report_no_profile(child: &ProfiledChild, name: &str) {
    let name = plain(name);
    if child.is_profiled() {
        eprintln!(
            "profiler: {name} recorded nothing: it embeds no profiler, has a session of its own, or ended before \
             it called profiler_child::init(). No profile was written"
        );
    } else {
        eprintln!(
            "profiler: {name} ran unprofiled: the memory limit is too small. No profile was written"
        );
    }
}

fn report_profile(report: &CaptureReport, name: &str) {
    let path = report.path.display();
    let recorded: u64 = report
        .processes
        .iter()
        .map(|process| process.counts.recorded())
        .sum();
    let kept: u64 = report
        .processes
        .iter()
        .map(|process| process.counts.delivered)
        .sum();
    eprintln!(
        "profiler: wrote {path} ({} bytes, {kept} of {recorded} entries); `profiler view {path}` opens it",
        report.bytes
    );
    for process in report
        .processes
        .iter()
        .filter(|process| process.name == name)
    {
        // A process that ended regularly needs no message.
        let is_orderly = process
            .verdict
            .why()
            .is_none_or(profiler_parent::Why::is_orderly);
        if !is_orderly || matches!(process.verdict, Verdict::Missing { .. }) {
            eprintln!("profiler: {} is {}", plain(name), process.verdict);
        }
    }
}

/// The program's own exit code, as a shell would report it.
fn exit_code(status: Option<ExitStatus>) -> ExitCode {
    let Some(status) = status else {
        return ExitCode::SUCCESS;
    };
    let code = status
        .code()
        .or_else(|| signal_of(status).map(|signal| 128 + signal))
        .unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}
