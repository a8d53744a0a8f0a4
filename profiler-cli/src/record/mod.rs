//! `profiler record -- CMD`: the parent for any program.
//!
//! One session with one child, and all processes below it: those that embed `profiler-child` join
//! by themselves, and the others are observed ([`crate::preload`]). Invariants: the profile is also
//! written if a process kills the program; a file that the user did not name is never overwritten;
//! the command ends as the program has ended, by an exit code or a signal.

mod captures;
mod choices;
mod descriptors;
mod features;
mod inheritance;
mod left;
mod metrics;
mod nested;
mod outcome;
mod progress;
mod saving;
mod stop;
mod unprofiled;
pub(crate) mod witness;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use profiler_files::output::ProfileFile;
use profiler_parent::ByteLimit;
use profiler_parent::LiveOptions;
use profiler_parent::core::groups::Probes;
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureReport, LiveServer, ProfiledChild, Session, SessionBuilder};
use profiler_prometheus::on_live_page;

use crate::console::tell;
use crate::output_name::OutputName;
use crate::plain::plain;
use crate::preload::PreloadedLibrary;
use crate::progress::{ProgressLine, with_progress};
use crate::push::RecordPushArgs;
use crate::signals::{Signals, end_like_the_program};
use crate::units;
use captures::{CaptureOnSignalArgs, Shape};
use choices::{Format, Source};
use inheritance::Inheritance;
use stop::Stopping;
use witness::GroupWitness;

/// Runs a program and writes its profile
///
/// CMD and every process below it are profiled, whichever process starts them: CMD may be any
/// program, a shell script, `make` or a job pool. A small library that the command preloads
/// (LD_PRELOAD) lets this process observe them; it adds no thread to them. A program that calls
/// `profiler_child::init()`, or a function of profiler.h, records itself from then on.
///
/// Programs that do not load it are observed from outside: programs that are statically linked, or
/// made for another processor; programs with other rights or of another user; and processes whose
/// environment was cleared. They have stacks if the system permits perf events, and otherwise their
/// processor time and their waits. A process that cannot be recorded is named in the profile with
/// the reason. If no process records anything, no profile is written, and the command says why.
///
/// A program with a profiler session of its own keeps it: the processes that this session records
/// are in the profiles of that session, and this profile names them. The command says so as soon as
/// it is known.
///
/// `profiler capture` writes a profile of the last seconds while CMD runs, and so does this command
/// on a signal, with --capture-on-signal.
///
/// With --progress, a line on standard error has the number of processes, the memory that is used,
/// and the lost entries while CMD runs.
///
/// Signals to this command are passed on to CMD, unless CMD has got them as well. Ctrl-C ends CMD,
/// and its profile is written as usual; the third Ctrl-C within five seconds kills CMD. After CMD
/// has ended, Ctrl-C ends only the sending of --push and the waiting of --wait. The exit code is
/// CMD's. If a signal ended CMD, the same signal ends this command, after the profile is written.
/// If CMD cannot be started, or its profile cannot be written where it should be, the exit code is
/// 2.
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
    #[command(flatten)]
    push: RecordPushArgs,
    #[command(flatten)]
    metrics: metrics::MetricsArgs,
    #[command(flatten)]
    captures: CaptureOnSignalArgs,
    /// The name of the profiled program in the profile [default: its file name]
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Profiles only programs that call `profiler_child::init()`: preloads no library
    #[arg(long)]
    no_agent: bool,
    /// Records the crash of each program: its stack, signal and address. Installs handlers for
    /// crash signals whose action is the default
    #[arg(long, conflicts_with = "no_agent")]
    crashes: bool,
    /// Shows CMD with its arguments in the profile; they may contain secrets
    #[arg(long)]
    show_arguments: bool,
    /// After the end of CMD, waits until all recorded processes have ended that CMD has left
    /// running, such as a server in the background; Ctrl-C ends the waiting
    #[arg(long)]
    wait: bool,
    /// Shows a line about the recording if standard error is a terminal; what CMD writes to the
    /// terminal is on the same lines
    #[arg(long)]
    progress: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &RecordArgs) -> Result<ExitCode> {
    let end = record(options)?;
    // The session is over, and has removed its files.
    if let End::Signal(signal) = end {
        end_like_the_program(signal);
    }
    Ok(end.code())
}

/// How the command ends.
enum End {
    /// With an exit code.
    Code(u8),
    /// By the signal that has ended the program.
    Signal(i32),
}

impl End {
    /// As the program has ended.
    fn of(status: Option<ExitStatus>) -> Self {
        let Some(status) = status else {
            return Self::Code(0);
        };
        match (signal_of(status), status.code()) {
            (Some(signal), _) => Self::Signal(signal),
            (None, code) => Self::Code(u8::try_from(code.unwrap_or(1) & 0xff).unwrap_or(1)),
        }
    }

    fn code(&self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(*code),
            Self::Signal(_) => ExitCode::FAILURE,
        }
    }
}

/// Records the program and writes its profile.
fn record(options: &RecordArgs) -> Result<End> {
    let output = OutputName::of_profile(options.output.as_deref(), "profile");
    drop(ProfileFile::create(output.now())?); // fail now, not after an hour of recording
    let (witness, _end_of_witness) = GroupWitness::start().unzip();
    let session = options.build().start()?;
    // The tracks show the time of groups, and no other measurement of them.
    let _measured = options.groups.then(|| session.monitor(Probes::JANK));
    let live = options.serve_live(&session)?;
    let metrics = options.metrics.serve(&session)?;
    let pusher = options.push.options(&options.shown_name())?;
    let pusher = pusher
        .map(|push| profiler_push::Pusher::start(&session, &push))
        .transpose()?;
    let line = match options.progress {
        true => ProgressLine::new(),
        false => ProgressLine::hidden(),
    };
    let _captures = options
        .captures
        .start(&session, &options.shape(), &output.now(), &line)?;
    captures::serve(&session, options.shape());
    let signals = Signals::catch_all()?;
    let (mut child, program, is_observed) = options.start(&session)?;
    // The program has already inherited the usual limit.
    descriptors::use_all();
    if options.name.is_none() {
        child.name_by_program();
    }
    let pid = child.id().get();
    let asked = options.captures.flag();
    let stopping = Stopping::watch(signals, witness, child.signals(), pid, asked)?;
    let mut wait = || {
        let status = progress::wait(&session, &mut child, &line);
        left::wait(&session, options.wait, &stopping);
        status
    };
    let (status, unrecorded) = match is_observed {
        true => unprofiled::watch(&session, pid, &program, wait),
        false => (wait(), Duration::ZERO),
    };
    if let Some(pusher) = pusher {
        stopping.is_sending(pusher.canceller());
        let report = options.push.finish(pusher);
        options.push.tell_report(&report);
    }
    stopping.is_saving();
    if !outcome::is_worth_a_profile(&session) {
        outcome::report_no_profile(&session, &child, &child.name());
        return Ok(End::of(status));
    }
    drop((live, metrics));
    let saved = saving::save(options, &session, &output)?;
    outcome::report_profile(&saved.report, child.id(), unrecorded);
    let Some(message) = saved.is_elsewhere else {
        return Ok(End::of(status));
    };
    tell(&format!("profiler: {message}"));
    Ok(End::Code(2))
}

impl RecordArgs {
    fn build(&self) -> SessionBuilder {
        // From this process only the markers about the end of the program are of interest.
        let mut builder = Session::builder()
            .name("profiler")
            .own_features(Features::NONE)
            .observe_crashes(self.crashes);
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

    /// The library to preload. Without it, programs that embed the profiler are profiled all the
    /// same.
    fn preloaded_library(&self) -> Option<PreloadedLibrary> {
        if self.no_agent {
            return None;
        }
        let found = PreloadedLibrary::find();
        if let Err(error) = &found {
            tell(&format!(
                "profiler: only programs that call profiler_child::init() are profiled: {}",
                plain(&error.to_string())
            ));
        }
        found.ok()
    }

    /// Starts the program. Returns it with its name, and whether it is observed.
    fn start(&self, session: &Session) -> Result<(ProfiledChild, PathBuf, bool)> {
        let library = self.preloaded_library();
        let mut command = self.command();
        if let Some(library) = &library {
            library.load_into(&mut command);
        }
        crate::agent::offer_to(&mut command);
        let program = PathBuf::from(command.get_program());
        let _inheritance = Inheritance::prepare(&mut command)?;
        let child = match library {
            Some(_) => session.spawn_observed(&self.shown_name(), command)?,
            None => session.spawn(&self.shown_name(), command)?,
        };
        Ok((child, program, library.is_some()))
    }

    /// Serves the live page, and prints its link.
    fn serve_live(&self, session: &Session) -> Result<Option<LiveServer>> {
        let Some(address) = self.live else {
            return Ok(None);
        };
        let options = on_live_page(session, LiveOptions::default());
        let live = session.serve_live_with(address, options)?;
        tell(&format!("profiler: live at {}", live.url()));
        // Not as an argument, which every user of the machine could read.
        tell(&format!(
            "profiler: in a terminal: {}={} profiler top",
            crate::live_page::VARIABLE,
            live.url()
        ));
        Ok(Some(live))
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
        let capture = self.shape().apply(session.capture());
        Ok(with_progress(line, capture.events(), || {
            capture.save(target)
        })?)
    }

    /// How captures of the program look.
    fn shape(&self) -> Shape {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let words: Vec<_> = words.collect();
        Shape {
            format: self.format.into(),
            arguments: self.show_arguments.then(|| words.join(" ")),
        }
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

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}
