//! A session that a program starts because its environment asks for it.
//!
//! Called by applications, through [`Session::from_env`], and by `profiler-startup`. The variable
//! `MULTIPROCESS_PROFILER` names the file of the profile and the options of the session, and says
//! when the profile is written. Invariants: without the variable nothing is started; after an error
//! nothing runs; in a forked child nothing of the parent's session is written, used or ended.

mod error;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipc_protocol::environment::{self, OneThread, StartupOptions, WriteAt};
use profiler_core::internal::sys;
use profiler_files::output::{OutputError, ProfileFile};

pub use error::EnvSessionError;

use crate::capture::{CaptureError, CaptureReport};
use crate::session::{Session, SessionBuilder};
use crate::sys::SignalBell;
use writer::{SIGNAL, Shared, Writer};

impl Session {
    /// Starts a session if the environment asks for it, and writes its profile without a further
    /// call. So the user of a program that contains this line can profile it without a change to
    /// its code:
    ///
    /// ```no_run
    /// use profiler_parent::Session;
    ///
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let _profile = Session::from_env()?; // dropped at the end of main
    ///     Ok(())
    /// }
    /// ```
    ///
    /// ```sh
    /// MULTIPROCESS_PROFILER=out.json.gz ./program
    /// MULTIPROCESS_PROFILER=out-%p.json.gz,limit=64M,filter=worker,at=10s ./program
    /// ```
    ///
    /// The value begins with the file of the profile. `%p` stands for the number of the process. A
    /// comma ends the file, and each of the options:
    ///
    /// - `limit=64M`: as [`SessionBuilder::memory_limit`];
    /// - `duration=30s`, which keeps the last 30 seconds: as [`SessionBuilder::duration`];
    /// - `interval=2ms`, between two samples of a thread: as [`SessionBuilder::interval`];
    /// - `feature=nativeallocations`, may be repeated: as [`SessionBuilder::feature`];
    /// - `filter=worker`, may be repeated: as [`SessionBuilder::filter`];
    /// - `at=exit`, the default: the profile is written when the [`EnvSession`] is dropped;
    /// - `at=10s`: the profile is written after ten seconds, or when the [`EnvSession`] is dropped
    ///   if that is earlier, and recording ends;
    /// - `at=signal`: the profile is written at each `SIGUSR2`, and replaces the one before.
    ///   Recording goes on.
    ///
    /// Returns `None` if the variable is not set or empty, and in a process with more rights than
    /// its parent process, such as a set-user-ID program.
    ///
    /// # The processes below this one
    /// Children of [`Session::spawn`] and [`Session::prepare`] record for this session, and do not
    /// get the variable. If this process has only one thread now, the same holds for the processes
    /// that it starts in any other way, on Linux: the address of the session is put into the
    /// environment of this process, and the variable is removed. Call the function early in `main`,
    /// before threads are started. Otherwise the variable stays, so a process below that calls this
    /// function, too, starts a session of its own. Use `%p` then, because each writes a profile.
    ///
    /// # The signal
    /// With `at=signal`, a handler for `SIGUSR2` is installed if the signal has its default action,
    /// which ends the process, and is not blocked. Otherwise the program, or the one that has
    /// started it, uses the signal, and the function returns [`EnvSessionError::Signal`]. The
    /// handler stays installed after the session. If the program installs another handler later,
    /// the signal writes no profile. A handler interrupts some system calls of the program, such as
    /// `poll` and `nanosleep` (`EINTR`).
    ///
    /// # Errors
    /// [`EnvSessionError`]; nothing runs then.
    pub fn from_env() -> Result<Option<EnvSession>, EnvSessionError> {
        environment::startup_options()?
            .map(|options| EnvSession::start(&options))
            .transpose()
    }

    /// Lets the processes that this process starts join the session, in whichever way they are
    /// started. Changes nothing where processes cannot join.
    fn pass_on(&self, alone: OneThread) {
        if let Ok(address) = self.address() {
            environment::pass_on(&address, alone);
        }
    }
}

/// A session that the environment has asked for. Dropping it writes the profile, if the environment
/// asks for that, and ends the session.
///
/// It is dropped neither by [`std::process::exit`] nor by a signal: such programs call
/// [`Self::finish`] before, or use the crate `profiler-startup`. In a forked child, the value does
/// nothing.
#[derive(Debug)]
#[must_use = "dropping it ends the session"]
pub struct EnvSession {
    /// `None` once it has ended.
    running: Option<Running>,
    file: PathBuf,
    write_at: WriteAt,
    /// The process that has started it.
    owner: u32,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    /// Writes the profile when the time has come.
    writer: Option<Writer>,
}

impl EnvSession {
    fn start(options: &StartupOptions) -> Result<Self, EnvSessionError> {
        let file = absolute(options.file_of(sys::process_id()))?;
        drop(ProfileFile::create(&file)?); // fail now, not after an hour of recording
        if options.write_at == WriteAt::Signal {
            SignalBell::check(SIGNAL)?;
        }
        let alone = OneThread::now();
        let session = Arc::new(builder(options).start()?);
        let shared = Arc::new(Shared::new(&session, file.clone()));
        let writer = Writer::start(&shared, options.write_at)?;
        if let Some(alone) = alone {
            session.pass_on(alone);
        }
        Ok(Self {
            running: Some(Running { shared, writer }),
            file,
            write_at: options.write_at,
            owner: std::process::id(),
        })
    }

    /// The session, to start children, to capture or to observe. `None` if recording has ended
    /// (`at=10s`). The session goes on while the returned value exists.
    pub fn session(&self) -> Option<Arc<Session>> {
        self.own()?.shared.session()
    }

    /// The file of the profile.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// When the profile is written.
    pub const fn write_at(&self) -> WriteAt {
        self.write_at
    }

    /// Writes the profile now, and replaces an earlier one. Recording goes on.
    ///
    /// # Errors
    /// [`CaptureError`]; [`CaptureError::SessionOver`] if recording has ended. The file is as
    /// before then.
    pub fn save(&self) -> Result<CaptureReport, CaptureError> {
        let running = self.own().ok_or(CaptureError::SessionOver)?;
        running.shared.save()
    }

    /// Ends recording as dropping does, and returns what became of the profile: the one that is
    /// written now, or the last one that was written because of the time or of a signal. `None` if
    /// there was no signal. Waits for a profile that is being written.
    ///
    /// # Errors
    /// [`CaptureError`]; the file is as before then.
    pub fn finish(mut self) -> Result<Option<CaptureReport>, CaptureError> {
        self.end().transpose()
    }

    /// What runs, in the process that has started it.
    fn own(&self) -> Option<&Running> {
        self.running.as_ref().filter(|_| self.is_own())
    }

    fn is_own(&self) -> bool {
        self.owner == std::process::id()
    }

    fn end(&mut self) -> Option<Result<CaptureReport, CaptureError>> {
        let running = self.running.take()?;
        if !self.is_own() {
            // A forked child: the threads are the parent's, and locks may be held.
            std::mem::forget(running);
            return None;
        }
        let Running { shared, writer } = running;
        drop(writer);
        let written = match self.write_at {
            WriteAt::Exit | WriteAt::After(_) if shared.session().is_some() => Some(shared.save()),
            _ => shared.take_written(),
        };
        shared.end_session();
        written
    }
}

impl Drop for EnvSession {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.end()
            && environment::is_verbose()
        {
            profiler_sys::tell(&format!("profiler: the profile is not written: {error}"));
        }
    }
}

fn builder(options: &StartupOptions) -> SessionBuilder {
    let mut builder = Session::builder().feature(options.features);
    if let Some(limit) = options.limit {
        builder = builder.memory_limit(limit);
    }
    if let Some(window) = options.duration {
        builder = builder.duration(window);
    }
    if let Some(interval) = options.interval {
        builder = builder.interval(interval);
    }
    let filters = options.filters.iter();
    filters.fold(builder, |builder, filter| builder.filter(filter))
}

/// The file, also after the program has changed its directory.
fn absolute(file: PathBuf) -> Result<PathBuf, EnvSessionError> {
    std::path::absolute(&file).map_err(|source| {
        EnvSessionError::File(OutputError {
            action: "find the directory of",
            path: file,
            source,
        })
    })
}
