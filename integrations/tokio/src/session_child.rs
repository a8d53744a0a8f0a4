//! Children of a session that tokio starts and awaits.
//!
//! Used by applications, with the feature `process`. The session prepares the command, lists the
//! child under its name and watches it. tokio starts the child and takes its exit status, which
//! [`SessionChild`] reports to the session. Invariant: a command is started once, because a second
//! process would get the same memory.

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{ExitStatus, Output};

use profiler_parent::{HostCommand, ProfiledChild, Session, SpawnError};
use tokio::process::{Child, Command};

/// Starts commands of tokio as children of a session.
pub trait SpawnInSession {
    /// Starts a child that records for this session, as [`Session::spawn`] does. `name` is its name
    /// in the profile. A program that does not call `profiler_child::init()` runs as usual.
    ///
    /// Call this on a runtime whose I/O is enabled, like `tokio::process::Command::spawn`. It takes
    /// the command, so that no second process can be started with the same memory.
    ///
    /// ```no_run
    /// use profiler_tokio::SpawnInSession;
    /// use tokio::process::Command;
    ///
    /// # use profiler_parent::Session;
    /// # async fn run(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut command = Command::new("./worker");
    /// command.arg("--port=0").kill_on_drop(true);
    /// let mut worker = command.spawn_in(session, "worker 1")?;
    /// let status = worker.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Session::spawn_by`]. No process runs then.
    ///
    /// # Panics
    /// Panics outside a runtime, like `tokio::process::Command::spawn`.
    fn spawn_in(self, session: &Session, name: &str) -> Result<SessionChild, SpawnError>;
}

impl SpawnInSession for Command {
    fn spawn_in(self, session: &Session, name: &str) -> Result<SessionChild, SpawnError> {
        let mut command = TokioCommand {
            command: self,
            child: None,
        };
        let profiled = session.spawn_by(name, &mut command)?;
        let gone = || io::Error::other("the command has started no child");
        let child = command.child.ok_or_else(gone)?;
        Ok(SessionChild { child, profiled })
    }
}

/// A command, and the child that it has started.
struct TokioCommand {
    command: Command,
    child: Option<Child>,
}

impl HostCommand for TokioCommand {
    fn as_std_mut(&mut self) -> &mut std::process::Command {
        self.command.as_std_mut()
    }

    fn start(&mut self) -> io::Result<u32> {
        let child = self.child.insert(self.command.spawn()?);
        let ended = || io::Error::other("the child has been awaited already");
        child.id().ok_or_else(ended)
    }
}

/// A child of a session that tokio awaits: a `tokio::process::Child` that reports its exit status
/// to the session.
///
/// Dropping it does what dropping the `Child` does. The session then gets the exit status only from
/// the system: on Linux 6.15 and later, or if the session reads the status before tokio takes it.
#[derive(Debug)]
pub struct SessionChild {
    child: Child,
    profiled: ProfiledChild,
}

impl SessionChild {
    /// The session's handle to the child.
    pub const fn profiled(&self) -> &ProfiledChild {
        &self.profiled
    }

    /// Waits for the child to end, as `tokio::process::Child::wait` does.
    ///
    /// # Errors
    /// Those of tokio.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.profiled.tell_end(status);
        Ok(status)
    }

    /// Returns the exit status if the child has ended, as `tokio::process::Child::try_wait` does.
    ///
    /// # Errors
    /// Those of tokio.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if let Some(status) = status {
            self.profiled.tell_end(status);
        }
        Ok(status)
    }

    /// Kills the child and waits for it to end, as `tokio::process::Child::kill` does.
    ///
    /// # Errors
    /// Those of tokio.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.wait().await.map(drop)
    }

    /// Waits for the child to end and collects its output, as
    /// `tokio::process::Child::wait_with_output` does.
    ///
    /// # Errors
    /// Those of tokio.
    pub async fn wait_with_output(self) -> io::Result<Output> {
        let output = self.child.wait_with_output().await?;
        self.profiled.tell_end(output.status);
        Ok(output)
    }

    /// Returns the child of tokio and the session's handle. Call [`ProfiledChild::tell_end`] to
    /// report the exit status to the session, which otherwise gets it only from the system.
    pub fn into_parts(self) -> (Child, ProfiledChild) {
        (self.child, self.profiled)
    }
}

/// Gives access to the pipes of the child, its process id, and the other parts of a `Child`.
impl Deref for SessionChild {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for SessionChild {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}
