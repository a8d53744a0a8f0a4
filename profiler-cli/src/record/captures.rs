//! Profiles while the recording goes on: on a signal (`--capture-on-signal`), and for `profiler
//! capture`.
//!
//! Invariants: the recording does not wait for them; a client that sends nothing or reads nothing
//! holds up only other clients, for a limited time; a socket that the system refuses costs nothing
//! but `profiler capture`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use profiler_parent::internal::pushers::EngineSources;
use profiler_parent::{
    Capture, CaptureFlag, CaptureNotice, CapturePolicy, CaptureTrigger, Session, TriggeredCaptures,
};
use profiler_sys::spawn_quiet;

use crate::capture_socket::{self, Connection, Listener, Wanted};
use crate::plain::plain;
use crate::progress::ProgressLine;
use crate::units;

/// The profiles of signals that are kept.
const KEPT: usize = 16;
/// The time that a profile of a signal shows if the user chooses none.
const LAST: Duration = Duration::from_secs(10);

/// The time after which the socket is tried again if the system refuses a client.
const PAUSE: Duration = Duration::from_secs(1);

/// Raised when the chosen signal arrives.
static ASKED: CaptureFlag = CaptureFlag::new();

/// A signal that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChosenSignal {
    #[value(name = "USR1", alias = "SIGUSR1")]
    Usr1,
    #[value(name = "USR2", alias = "SIGUSR2")]
    Usr2,
}

/// The options about captures.
#[derive(Debug, Args)]
pub(super) struct CaptureOnSignalArgs {
    /// When this command gets this signal, writes a profile of the last seconds beside the profile
    /// of the recording, and goes on; the newest 16 are kept. The signal is not passed on to CMD
    #[arg(
        long = "capture-on-signal",
        value_name = "SIGNAL",
        value_enum,
        ignore_case = true
    )]
    signal: Option<ChosenSignal>,
    /// How much time a profile of --capture-on-signal shows, such as 30s or 5m [default: 10s]
    #[arg(
        long = "capture-last",
        value_name = "TIME",
        value_parser = units::duration,
        requires = "signal"
    )]
    last: Option<Duration>,
}

/// How the captures of a recording look.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) format: profiler_parent::Format,
    /// The command line that they show.
    pub(super) arguments: Option<String>,
}

impl Shape {
    /// A capture of the program. This command has nothing to show in it.
    pub(super) fn apply(&self, capture: Capture) -> Capture {
        let capture = capture.format(self.format).only_children();
        match &self.arguments {
            Some(arguments) => capture.arguments(arguments.clone()),
            None => capture,
        }
    }
}

impl CaptureOnSignalArgs {
    /// The signal that is not passed on, and the flag that it raises.
    pub(super) fn flag(&self) -> Option<(i32, &'static CaptureFlag)> {
        Some((number(self.signal?), &ASKED))
    }

    /// Captures when the flag is raised, until the returned value is dropped. `output` is the
    /// profile of the recording; the messages do not mix with `line`.
    pub(super) fn start(
        &self,
        session: &Session,
        shape: &Shape,
        output: &Path,
        line: &ProgressLine,
    ) -> Result<Option<TriggeredCaptures>> {
        if self.signal.is_none() {
            return Ok(None);
        }
        let (directory, name) = place_beside(output);
        let (shape, line) = (shape.clone(), line.clone());
        let policy = CapturePolicy::in_directory(directory)
            .name(name)
            .last(self.last.unwrap_or(LAST))
            .kept(KEPT)
            .at_least_apart(Duration::ZERO)
            .configure(move |capture| shape.apply(capture))
            .on_capture(move |notice| line.say(&text_of(notice)));
        let trigger = CaptureTrigger::flag(&ASKED);
        Ok(Some(session.capture_on(trigger, policy)?))
    }
}

const fn number(signal: ChosenSignal) -> i32 {
    match signal {
        ChosenSignal::Usr1 => libc::SIGUSR1,
        ChosenSignal::Usr2 => libc::SIGUSR2,
    }
}

/// The directory of a profile, and how the names of captures begin there: `profile-capture` for
/// `profile.json.gz`.
fn place_beside(output: &Path) -> (PathBuf, String) {
    let directory = output.parent().filter(|path| !path.as_os_str().is_empty());
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".json").unwrap_or(stem);
    let directory = directory.unwrap_or(Path::new("."));
    (directory.to_owned(), format!("{stem}-capture"))
}

fn text_of(notice: &CaptureNotice) -> String {
    plain(&match &notice.outcome {
        Ok(report) => report.path.display().to_string(),
        Err(error) => format!("no capture: {error}"),
    })
}

/// Serves `profiler capture` until the command ends.
pub(super) fn serve(session: &Session, shape: Shape) {
    let Ok(listener) = Listener::bind() else {
        return;
    };
    let sources = session.engine_sources();
    // An error: there is no thread for it.
    let _ = spawn_quiet("profiler-ask", move || {
        loop {
            match listener.accept() {
                // An error: the client has gone.
                Ok(connection) => drop(answer(connection, &sources, &shape)),
                // The system has no descriptor left, for example.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    });
}

/// Answers a client.
fn answer(
    mut connection: Connection,
    sources: &EngineSources,
    shape: &Shape,
) -> std::io::Result<()> {
    let wanted = capture_socket::read_request(&mut connection)?;
    let stream = connection.get_mut();
    let Some(wanted) = wanted else {
        return capture_socket::send_error(stream, "the recording is one of another version");
    };
    match captured(sources, shape, wanted) {
        Ok((length, mut file)) => capture_socket::send_profile(stream, length, &mut file),
        Err(error) => capture_socket::send_error(stream, &crate::console::sentence(&error)),
    }
}

/// A file with the profile, which has no name any more, and its length.
fn captured(sources: &EngineSources, shape: &Shape, wanted: Wanted) -> Result<(u64, File)> {
    let directory = tempfile::tempdir()?;
    let capture = match wanted {
        Wanted::All => sources.capture(),
        Wanted::Last(time) => sources.capture().last(time),
    };
    let path = directory.path().join("profile.json.gz");
    let report = shape.apply(capture).save(path)?;
    Ok((report.bytes, File::open(report.path)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_beside_the_profile_of_the_recording() {
        let place = |output| place_beside(Path::new(output));
        let here = (PathBuf::from("."), "profile-capture".to_owned());
        assert_eq!(place("profile.json.gz"), here);
        let there = (PathBuf::from("/a/b"), "out-capture".to_owned());
        assert_eq!(place("/a/b/out.json"), there);
    }
}
