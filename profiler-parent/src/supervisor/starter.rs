//! The starter of a child process: the session, or a library of the application.
//!
//! Used by `spawn`. The session takes the exit status of a child that it has started. If a library
//! has started the child, the library takes the exit status, and the session gets it from the
//! system or from the application. Invariant: a command is started once, because a second process
//! would get the same memory.

use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use ipc_protocol::environment::{SESSION_VARIABLE, VARIABLE};
use profiler_core::ids::{PoolId, ProcessId};

use super::spawn::SpawnError;
use crate::spawn::start;
use crate::spawn::watch::{ExitWatcher, KILL, WatchError};
use crate::sys;

/// A command that another library starts, for
/// [`Session::spawn_by`](crate::Session::spawn_by). `profiler-tokio` has one for
/// `tokio::process::Command`.
///
/// ```no_run
/// use std::process::{Child, Command};
/// use profiler_parent::{HostCommand, Session};
///
/// /// A command of the standard library, whose child the application keeps.
/// struct OwnCommand(Command, Option<Child>);
///
/// impl HostCommand for OwnCommand {
///     fn as_std_mut(&mut self) -> &mut Command {
///         &mut self.0
///     }
///
///     fn start(&mut self) -> std::io::Result<u32> {
///         Ok(self.1.insert(self.0.spawn()?).id())
///     }
/// }
///
/// fn run(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
///     let mut command = OwnCommand(Command::new("./worker"), None);
///     let profiled = session.spawn_by("worker 1", &mut command)?;
///     if let OwnCommand(_, Some(mut child)) = command {
///         profiled.tell_end(child.wait()?);
///     }
///     Ok(())
/// }
/// ```
pub trait HostCommand {
    /// Returns the inner command of the standard library. The session adds environment variables to
    /// it, and files that the process inherits.
    fn as_std_mut(&mut self) -> &mut Command;

    /// Starts the process and returns its process id. The session calls this at most once.
    /// Afterwards, the command must not be used again. The files stay open until the command is
    /// dropped.
    ///
    /// # Errors
    /// If the process cannot be started. An error means that no process runs.
    fn start(&mut self) -> io::Result<u32>;
}

/// A command, with the starter of its process.
pub(super) enum Starter<'a> {
    Session(Command),
    Host(&'a mut dyn HostCommand),
}

impl Starter<'_> {
    /// The command.
    pub(super) fn command(&mut self) -> &mut Command {
        match self {
            Self::Session(command) => command,
            Self::Host(command) => command.as_std_mut(),
        }
    }

    /// Whether a library of the host takes the exit status.
    pub(super) const fn is_host(&self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Starts the process.
    pub(super) fn start(self) -> Result<Started, SpawnError> {
        let host = match self {
            Self::Session(command) => return Ok(start(command).map(Started::Child)?),
            Self::Host(host) => host,
        };
        let started = host.start();
        // A second process with these variables would use the memory of the first one.
        let command = host.as_std_mut();
        command.env_remove(VARIABLE).env_remove(SESSION_VARIABLE);
        let failed = |source| SpawnError::Start {
            program: command.get_program().to_owned(),
            source,
        };
        Ok(Started::OfHost(ProcessId::new(started.map_err(failed)?)))
    }
}

/// A process that was started.
pub(super) enum Started {
    Child(Child),
    /// A process that a library of the host has started. Its exit status is not taken yet, because
    /// the library has not returned to the application since the start.
    OfHost(ProcessId),
}

/// The pipes to a child.
pub(super) type Pipes = (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>);

impl Started {
    pub(super) fn pid(&self) -> ProcessId {
        match self {
            Self::Child(child) => ProcessId::new(child.id()),
            Self::OfHost(pid) => *pid,
        }
    }

    /// Takes the pipes that the command asked for. Returns none if a library has started the
    /// process, because the library has the pipes.
    pub(super) fn take_pipes(&mut self) -> Pipes {
        match self {
            Self::Child(child) => (child.stdin.take(), child.stdout.take(), child.stderr.take()),
            Self::OfHost(_) => (None, None, None),
        }
    }

    /// Kills the process. If a library has started it, the exit status is left to the library.
    pub(super) fn end(&mut self) {
        match self {
            Self::Child(child) => {
                let _ = (child.kill(), child.wait());
            }
            Self::OfHost(pid) => {
                let _ = sys::signal_by_number(*pid, KILL);
            }
        }
    }

    /// Makes the watcher report the end of the process.
    pub(super) fn watch(
        self,
        watcher: &ExitWatcher<PoolId>,
        key: PoolId,
    ) -> Result<(), (Self, io::Error)> {
        match self {
            Self::Child(child) => watcher
                .watch(key, child)
                .map_err(|WatchError { child, error }| (Self::Child(child), error)),
            Self::OfHost(pid) => sys::open_untaken(pid)
                .and_then(|(process, start)| watcher.watch_other(key, process, pid, start))
                .map_err(|error| (self, error)),
        }
    }
}
